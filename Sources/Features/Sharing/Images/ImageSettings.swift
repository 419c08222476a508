package import Endpoints
package import Settings

/// The settings of images for messages.
package struct ImageSettings: SettingsGroup {
    /// The maximum size of an image, in bytes.
    package var maximumBytes = 5 << 20
    /// The maximum size of all stored images together, in bytes.
    package var maximumTotalBytes = 1 << 30

    /// The pace of uploads, which tests change.
    package var pace = UploadPace()

    package init() {}

    package static let settings: [Setting<ImageSettings>] = [
        Setting(
            "images.max_bytes",
            \.maximumBytes,
            .bytes(1024...32 << 20),
            "the maximum size of an image for messages; beyond it 413. Kakao documents 5 MB, for older apps 2 MB. Up to ten images at a time are in memory ([sharing](sharing.md#images))"
        ),
        Setting(
            "images.max_total_bytes",
            \.maximumTotalBytes,
            .bytes(1 << 20...1 << 40),
            "the maximum size of all images that `POST /v1/images` keeps in the database; beyond it 507"
        ),
    ]

    /// The limits of the files of a request with images.
    package var fileLimits: ReceivedFile.Limits {
        ReceivedFile.Limits(bytes: maximumBytes, setting: "images.max_bytes", pace: pace)
    }
}
