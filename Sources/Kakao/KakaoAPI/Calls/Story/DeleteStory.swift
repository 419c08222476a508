import HTTPTypes
import Schemas

/// Deletes a story of a user. (Kakao, "Kakao Story: iOS", "Delete story".)
///
/// Error -605 means that the user has no such story.
package struct DeleteStory: KakaoCall {
    package typealias Answer = Void

    package let id: String

    package static let operation = KakaoOperation<Self>(
        "story_delete",
        [.delete],
        "/v1/api/story/delete/mystory",
        .story,
        [.userToken],
        "Deletes a story of the user.",
        parameters: Record(
            .required("id", \.id, .text(1...Story.maximumID), "The id of the story."),
            make: Self.init
        ),
        answer: .empty
    )
}
