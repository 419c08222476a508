import HTTPTypes
import Schemas

/// Returns whether a user uses KakaoStory. All other calls of KakaoStory are rejected with error -601 for a user who does
/// not. (Kakao, "Kakao Story: iOS", "Validate Kakao Story user".)
package struct CheckStoryUser: KakaoCall {
    package typealias Answer = Bool

    package static let operation = KakaoOperation<Self>(
        "story_user",
        [.get],
        "/v1/api/story/isstoryuser",
        .story,
        [.userToken],
        "Returns whether the user uses KakaoStory.",
        parameters: Record(make: Self.init),
        answer: .json(
            Record<Bool>(
                .required(
                    "isStoryUser",
                    { @Sendable isStoryUser in isStoryUser },
                    .boolean,
                    "Whether the user uses KakaoStory."
                ),
                make: { $0 }
            )
            .kind("StoryUser"),
            example: true
        )
    )
}
