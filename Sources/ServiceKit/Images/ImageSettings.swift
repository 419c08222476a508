/// The settings of images for messages.
package struct ImageSettings: SettingsGroup {
    /// The maximum size of an image, in bytes.
    package var maximumBytes = 5 << 20

    package init() {}

    package static let settings: [Setting<ImageSettings>] = [
        Setting(
            "images.max_bytes",
            \.maximumBytes,
            .bytes(1024...32 << 20),
            "the maximum size of an image for messages; beyond it 413. Kakao documents 5 MB, for older apps 2 MB. Up to four images at a time are in memory ([relay](relay.md#calls-with-an-app-key))"
        )
    ]

    /// The limits of the files of a request with images.
    package var fileLimits: ReceivedFile.Limits {
        ReceivedFile.Limits(bytes: maximumBytes, setting: "images.max_bytes")
    }
}
