import HTTPTypes
import Schemas

/// Lists a user's stories, the newest first, about 18 a page, without their comments and moods. (Kakao, "Kakao Story: iOS",
/// "Retrieving multiple stories".)
package struct RetrieveStories: KakaoCall {
    package typealias Answer = [Story]

    /// The id of the last story of the previous page. `nil` or empty for the first page.
    package var lastID: String?

    package static let operation = KakaoOperation<Self>(
        "story_mystories",
        [.get],
        "/v1/api/story/mystories",
        .story,
        [.userToken],
        "Lists the user's stories, the newest first.",
        parameters: Record(
            .optional(
                "last_id",
                \.lastID,
                .text(0...Story.maximumID),
                "The id of the last story of the previous page; absent or empty for the first page."
            ),
            make: Self.init
        ),
        answer: .json(Story.kind.array, example: [.example])
    )
}
