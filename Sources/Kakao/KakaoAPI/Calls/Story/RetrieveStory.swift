import HTTPTypes
import Schemas

/// Returns a story of a user, with its comments and moods. (Kakao, "Kakao Story: iOS", "Retrieving a specific story".)
///
/// Error -605 means that the user has no such story.
package struct RetrieveStory: KakaoCall {
    package typealias Answer = Story

    package let id: String

    package static let operation = KakaoOperation<Self>(
        "story_mystory",
        [.get],
        "/v1/api/story/mystory",
        .story,
        [.userToken],
        "Returns a story of the user, with its comments and moods.",
        parameters: Record(
            .required("id", \.id, .text(1...Story.maximumID), "The id of the story."),
            make: Self.init
        ),
        answer: .json(Story.kind, example: .example)
    )
}
