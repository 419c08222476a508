internal import Locking

/// The users of the app, as Kakao knows them: whether they are linked to the app, and the scopes that they agreed to.
///
/// A user whom no call has named before is linked and has agreed to the app's usual scopes, so that a test need not
/// create its users first.
final class AppUsers: Sendable {
    /// What Kakao knows of a user.
    struct User: Sendable {
        var isLinked = true
        /// The ids of the scopes that the user agreed to, in the order of the consent.
        var scopes = ["profile_nickname", "profile_image", "account_email"]
    }

    private let users = Locked<[Int64: User]>([:])

    /// Returns a user.
    func user(_ userID: Int64) -> User {
        users.withLock { $0[userID] ?? User() }
    }

    /// Changes a user, and returns the result of the change.
    @discardableResult
    func update<Result>(_ userID: Int64, _ change: (inout User) -> Result) -> Result {
        users.withLock { change(&$0[userID, default: User()]) }
    }

    /// Logs a user in, who consents to more scopes: links the user again after an unlink, and returns all scopes that
    /// the user has agreed to.
    func logIn(_ userID: Int64, consentingTo scopes: [String]) -> [String] {
        update(userID) { user in
            if !user.isLinked { user = User() }
            for scope in scopes where !user.scopes.contains(scope) { user.scopes.append(scope) }
            return user.scopes
        }
    }
}
