import HTTPTypes
import Schemas

/// Posts a story that consists of a text. (Kakao, "Kakao Story: iOS", "Posting text story".)
package struct PostNote: KakaoCall {
    package typealias Answer = StoryPostAnswer

    /// The text, 1 to 2048 characters.
    package let content: String
    package var options = StoryPostOptions()

    package static let operation = KakaoOperation<Self>(
        "story_post_note",
        [.post],
        "/v1/api/story/post/note",
        .story,
        [.userToken],
        "Posts a text as a story of the user.",
        parameters: Record(
            .required("content", \.content, .storyContent(1...Story.maximumContent), "The text, 1 to 2048 characters."),
            .members(of: StoryPostOptions.record, \.options),
            make: Self.init
        ),
        answer: StoryPostAnswer.answer
    )
}
