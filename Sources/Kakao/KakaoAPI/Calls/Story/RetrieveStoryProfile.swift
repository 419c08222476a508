import HTTPTypes
import Schemas

/// Returns a user's profile in KakaoStory. A member to which the user has not agreed is absent. (Kakao, "Kakao Story: iOS",
/// "Retrieve Kakao Story profile".)
package struct RetrieveStoryProfile: KakaoCall {
    /// Whether the addresses of images are https.
    package var secureResource: Bool?

    package static let operation = KakaoOperation<Self>(
        "story_profile",
        [.get],
        "/v1/api/story/profile",
        .story,
        [.userToken],
        "Returns the user's profile in KakaoStory, as far as the user has agreed.",
        parameters: Record(
            .optional("secure_resource", \.secureResource, .boolean, "Whether the addresses of images are https."),
            make: Self.init
        ),
        answer: .json(
            Answer.record.kind("StoryProfile"),
            example: Answer(
                nickname: "홍길동",
                profileImageURL: "https://k.kakaocdn.net/story_profile_640x640.jpg",
                thumbnailURL: "https://k.kakaocdn.net/story_profile_160x160.jpg",
                backgroundImageURL: "https://k.kakaocdn.net/story_background.jpg",
                permalink: "https://story.kakao.com/hong",
                birthday: "1130",
                birthdayType: "SOLAR"
            )
        )
    )

    package struct Answer: Sendable, Equatable {
        package let nickname: String?
        package let profileImageURL: String?
        package let thumbnailURL: String?
        package let backgroundImageURL: String?
        /// The address of the user's page in KakaoStory. It needs the scope `story_permalink`.
        package let permalink: String?
        /// Month and day: `1130`.
        package let birthday: String?
        /// `SOLAR` or `LUNAR`.
        package let birthdayType: String?

        package init(
            nickname: String?,
            profileImageURL: String?,
            thumbnailURL: String?,
            backgroundImageURL: String?,
            permalink: String?,
            birthday: String?,
            birthdayType: String?
        ) {
            self.nickname = nickname
            self.profileImageURL = profileImageURL
            self.thumbnailURL = thumbnailURL
            self.backgroundImageURL = backgroundImageURL
            self.permalink = permalink
            self.birthday = birthday
            self.birthdayType = birthdayType
        }

        fileprivate static let record = Record<Answer>(
            .optional("nickName", \.nickname, .text, "The nickname in KakaoStory."),
            .optional("profileImageURL", \.profileImageURL, .text, "The profile image; may be empty."),
            .optional("thumbnailURL", \.thumbnailURL, .text, "The small profile image; may be empty."),
            .optional("bgImageURL", \.backgroundImageURL, .text, "The background image; may be empty."),
            .optional(
                "permalink",
                \.permalink,
                .text,
                "The address of the user's page in KakaoStory, with the scope `story_permalink`."
            ),
            .optional("birthday", \.birthday, .text, "Month and day of the birthday: `1130`."),
            .optional("birthdayType", \.birthdayType, .text, "`SOLAR` or `LUNAR`."),
            make: Answer.init
        )
    }
}
