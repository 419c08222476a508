import Schemas

/// The answer to a call that changes a user: the user's id.
package struct UserIDAnswer: Sendable {
    package let userID: Int64

    package init(userID: Int64) {
        self.userID = userID
    }

    static let answer = KakaoAnswer.json(
        Record<UserIDAnswer>(.required("id", \.userID, .kakaoID, "The user."), make: UserIDAnswer.init)
            .kind("KakaoUserID"),
        example: UserIDAnswer(userID: 123_456_789)
    )
}

extension Kind where Value == Int64 {
    /// An id as Kakao Login writes it: a number. The Push API writes ids as texts.
    static var kakaoID: Kind { .integer(1...Int64.max) }
}
