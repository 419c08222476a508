import HTTPTypes
import Schemas

/// Uploads images to Kakao for a story, and returns the path of each, in the order of the files. A path is valid in
/// ``PostPhoto`` only. (Kakao, "Kakao Story: iOS", "Posting photo story".)
///
/// Error -602 means that an image is larger than 10 MB, -606 that there are more than five.
package struct UploadStoryImages: KakaoCall {
    package typealias Answer = [String]

    /// The maximum number of images of a story.
    package static let maximumImages = 5

    package static let operation = KakaoOperation<Self>(
        "story_upload",
        [.post],
        "/v1/api/story/upload/multi",
        .story,
        [.userToken],
        // Images that no story has do no harm.
        isIdempotent: true,
        "Uploads images to Kakao for a story, and returns their paths.",
        parameters: Record(make: Self.init),
        answer: .json(
            Kind<String>.text.array,
            example: ["/sJdTVn/hyfQbOHXGF/abc123/img.png?width=150&height=150"]
        ),
        uploadPart: "file",
        maximumUploads: maximumImages,
        timeout: UploadImage.timeout
    )
}
