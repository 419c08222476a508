import HTTPTypes
import Schemas

/// Posts a story with images, which ``UploadStoryImages`` has uploaded. (Kakao, "Kakao Story: iOS", "Posting photo story".)
package struct PostPhoto: KakaoCall {
    package typealias Answer = StoryPostAnswer

    /// The paths that the upload returned, one to five.
    package let images: [String]
    /// The text, up to 2048 characters.
    package var content: String?
    package var options = StoryPostOptions()

    package static let operation = KakaoOperation<Self>(
        "story_post_photo",
        [.post],
        "/v1/api/story/post/photo",
        .story,
        [.userToken],
        "Posts uploaded images as a story of the user.",
        parameters: Record(
            .required(
                "image_url_list",
                \.images,
                .texts(count: 1...UploadStoryImages.maximumImages, length: 1...2048),
                "The paths that `/v1/api/story/upload/multi` returned, one to five."
            ),
            .storyContent(\.content),
            .members(of: StoryPostOptions.record, \.options),
            make: Self.init
        ),
        answer: StoryPostAnswer.answer
    )
}
