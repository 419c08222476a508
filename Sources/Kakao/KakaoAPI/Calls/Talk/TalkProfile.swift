import HTTPTypes
import Schemas

/// Returns a user's profile in KakaoTalk. (Kakao, "KakaoTalk Social: REST API", "Retrieve KakaoTalk profile".)
///
/// Error -501 means that the user does not use KakaoTalk.
package struct TalkProfile: KakaoCall {
    /// Whether the addresses of images are https.
    package var secureResource: Bool?

    package static let operation = KakaoOperation<Self>(
        "talk_profile",
        [.get],
        "/v1/api/talk/profile",
        .talk,
        [.userToken],
        "Returns the user's profile in KakaoTalk.",
        parameters: Record(
            .optional("secure_resource", \.secureResource, .boolean, "Whether the addresses of images are https."),
            make: Self.init
        ),
        answer: .json(
            Answer.record.kind("TalkProfile"),
            example: Answer(
                nickname: "홍길동",
                profileImageURL: "https://k.kakaocdn.net/profile_640x640.jpg",
                thumbnailURL: "https://k.kakaocdn.net/profile_110x110.jpg",
                country: "KR"
            )
        )
    )

    package struct Answer: Sendable {
        package let nickname: String?
        /// The profile image, 640 pixels wide; empty if there is none.
        package let profileImageURL: String?
        /// The profile image, 110 pixels wide; empty if there is none.
        package let thumbnailURL: String?
        /// The country code. Kakao no longer sends it.
        package let country: String?

        package init(nickname: String?, profileImageURL: String?, thumbnailURL: String?, country: String? = nil) {
            self.nickname = nickname
            self.profileImageURL = profileImageURL
            self.thumbnailURL = thumbnailURL
            self.country = country
        }

        fileprivate static let record = Record<Answer>(
            .optional("nickName", \.nickname, .text, "The nickname."),
            .optional("profileImageURL", \.profileImageURL, .text, "The profile image, 640 pixels wide; may be empty."),
            .optional("thumbnailURL", \.thumbnailURL, .text, "The profile image, 110 pixels wide; may be empty."),
            .optional("countryISO", \.country, .text, "The country code, which Kakao no longer sends."),
            make: Answer.init
        )
    }
}
