import Endpoints
import KakaoAPI
package import Settings
import Sharing

/// The settings of relayed calls.
package struct RelaySettings: SettingsGroup {
    /// Whether the calls of KakaoStory are relayed.
    package var relaysStory = false
    /// The maximum size of an image for a story, in bytes.
    package var maximumStoryImageBytes = 10 << 20

    package init() {}

    /// The setting that limits the size of an image for a story.
    private static let storyImageSetting = "story.max_image_bytes"

    package static let settings: [Setting<RelaySettings>] = [
        Setting(
            "story.enabled",
            \.relaysStory,
            .boolean,
            "whether the calls of KakaoStory, which Kakao has ended, are relayed; if not, they are answered 410 ([KakaoStory](story.md))"
        ),
        Setting(
            storyImageSetting,
            \.maximumStoryImageBytes,
            .bytes(1024...32 << 20),
            "the maximum size of an image for a story; beyond it 413. Kakao documented 10 MB. Up to four uploads of five images at a time are in memory"
        ),
    ]

    /// The limits of the files of a request with images for a story.
    var storyFileLimits: ReceivedFile.Limits {
        ReceivedFile.Limits(bytes: maximumStoryImageBytes, setting: Self.storyImageSetting)
    }

    /// The images that are allowed for a story, in a sentence for the OpenAPI document.
    static let storyImages = ImageHeader.allowed(upTo: storyImageSetting)
}
