import JSON
import KakaoAPI
import Locking

/// The users of the app, as Kakao knows them.
///
/// The first call that names a user creates the user, linked to the app and with the app's usual consents, so that a test
/// need not create its users first.
final class AppUsers: Sendable {
    /// What Kakao knows of a user.
    struct User: Sendable {
        let id: Int64
        var isLinked = true
        /// Whether the user has signed up; `nil` if the app links its users automatically.
        var hasSignedUp: Bool?
        /// The time when the user was linked to the app, in Unix milliseconds.
        var connectedAt = WallClock.unixMilliseconds
        /// The ids of the scopes that the user agreed to, in the order of the consent.
        var scopes = ["profile_nickname", "profile_image", "account_email"]
        /// The service terms that the user agreed to, in the order of the consent.
        var terms: [AgreedTerms]
        /// The texts that the app has stored.
        var properties: JSONObject
        /// The members of `kakao_account`, also those that the user has not agreed to share.
        var account: JSONObject
        var addresses: [ShippingAddress] = []
        var talk = TalkUser()

        init(_ id: Int64) {
            self.id = id
            terms = AppDefinition.terms.filter(\.isRequired).map { AgreedTerms(tag: $0.tag, by: .login) }
            properties = ["nickname": .string("User \(id)")]
            let image = "https://k.kakaocdn.net/dn/sandbox/\(id)/img"
            account = [
                "profile": [
                    "nickname": .string("User \(id)"), "is_default_nickname": false,
                    "thumbnail_image_url": .string("\(image)_110x110.jpg"),
                    "profile_image_url": .string("\(image)_640x640.jpg"), "is_default_image": false,
                ],
                "is_email_valid": true, "is_email_verified": true, "email": .string("user\(id)@example.com"),
                "name": "홍길동", "gender": "female", "age_range": "20~29", "birthday": "1130", "birthday_type": "SOLAR",
                "birthyear": "2002", "phone_number": "+82 10-1234-1234",
            ]
        }

        /// Whether the user has logged in, and has to sign up to be linked to the app.
        var awaitsSignUp: Bool { hasSignedUp == false }

        /// The nickname in the profile.
        var nickname: String? { account["profile"]?["nickname"]?.string }

        /// Adds scopes to those that the user has agreed to.
        mutating func agree(to more: [String]) {
            for scope in more where !scopes.contains(scope) { scopes.append(scope) }
        }
    }

    /// A consent to service terms.
    struct AgreedTerms: Sendable {
        enum Origin: String, Sendable {
            case login = "KAUTH"
            case call = "KAPI"
        }

        let tag: String
        /// In Unix milliseconds.
        let at = WallClock.unixMilliseconds
        let by: Origin
    }

    private let users = Locked<[Int64: User]>([:])

    /// Returns a user.
    func user(_ userID: Int64) -> User { update(userID) { $0 } }

    /// Changes a user, and returns the result of the change.
    @discardableResult
    func update<Result, Failure: Error>(
        _ userID: Int64,
        _ change: (inout User) throws(Failure) -> Result
    ) throws(Failure) -> Result {
        try users.withLock { users throws(Failure) in try change(&users[userID, default: User(userID)]) }
    }

    /// Runs a call for its user, who is linked to the app.
    ///
    /// - Parameter beforeSignUp: Whether a user who has to sign up may make the call with a token.
    /// - Throws: Error -2 if the call names no user, -101 if the user is not linked to the app.
    func withUser<Answer>(
        of caller: KakaoCallServer.Caller,
        beforeSignUp: Bool = false,
        _ body: (inout User) throws(KakaoRefusal) -> Answer
    ) throws(KakaoRefusal) -> Answer {
        guard let userID = caller.userID else { throw .badParameter("The Parameter [target_id] cannot be null.") }
        return try update(userID) { user throws(KakaoRefusal) in
            let isAdmitted = beforeSignUp && user.awaitsSignUp && caller.accessToken != nil
            guard user.isLinked || isAdmitted else { throw .notLinked }
            return try body(&user)
        }
    }

    /// The ids of the linked users, in ascending order.
    var linkedIDs: [Int64] { users.withLock { users in users.filter(\.value.isLinked).keys.sorted() } }

    /// Logs a user in, who consents to more scopes: links the user again after an unlink, unless the user has to sign up, and
    /// returns all scopes that the user has agreed to.
    @discardableResult
    func logIn(_ userID: Int64, consentingTo scopes: [String]) -> [String] {
        update(userID) { user in
            if !user.isLinked, !user.awaitsSignUp {
                let talk = user.talk
                user = User(userID)
                user.talk = talk
            }
            user.agree(to: scopes)
            return user.scopes
        }
    }

    /// Adds scopes to those that users have agreed to.
    func agree(_ userIDs: some Sequence<Int64>, to scopes: [String]) {
        users.withLock { users in
            for userID in userIDs { users[userID, default: User(userID)].agree(to: scopes) }
        }
    }
}
