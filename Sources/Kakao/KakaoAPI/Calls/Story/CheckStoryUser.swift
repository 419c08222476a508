import HTTPTypes
import Schemas

/// Returns whether a user uses KakaoStory. All other calls of KakaoStory are rejected with error -601 for a user who does
/// not. (Kakao, "Kakao Story: iOS", "Validate Kakao Story user".)
package struct CheckStoryUser: KakaoCall {
    package init() {}

    package static let operation = KakaoOperation<Self>(
        "story_user",
        [.get],
        "/v1/api/story/isstoryuser",
        .story,
        [.userToken],
        "Returns whether the user uses KakaoStory.",
        parameters: Record(make: Self.init),
        answer: .json(Answer.record.kind("StoryUser"), example: Answer(isStoryUser: true))
    )

    package struct Answer: Sendable {
        package let isStoryUser: Bool

        package init(isStoryUser: Bool) {
            self.isStoryUser = isStoryUser
        }

        fileprivate static let record = Record<Answer>(
            .required("isStoryUser", \.isStoryUser, .boolean, "Whether the user uses KakaoStory."),
            make: Answer.init
        )
    }
}
