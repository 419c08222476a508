package import Endpoints
import HTTPServer
import HTTPTypes
import Locking
package import Runtime

/// The feature that keeps the access tokens of users, on one event loop.
package protocol UserTokenSource: Sendable {
    /// Returns a valid access token of a user's account.
    ///
    /// - Parameter rejected: A token of the user that Kakao has just rejected with -401. It is refreshed first, unless a
    ///   concurrent call has refreshed it.
    /// - Throws: ``Problem`` 409 `login-required` if the user must log in first.
    func accessToken(of userID: Int64, replacing rejected: String?) async throws -> String
}

/// A registry for the feature that keeps users' access tokens, so that others can call Kakao with them.
package final class UserTokens: Sendable {
    private let source = Locked<(@Sendable (LoopServices) -> any UserTokenSource)?>(nil)
    private let consentPage = Locked<(@Sendable (_ userID: Int64, _ scopes: [String]) -> String?)?>(nil)

    package init() {}

    /// Sets the source of the tokens, which is made for each event loop. Called before the server starts.
    package func register(_ make: @escaping @Sendable (LoopServices) -> any UserTokenSource) {
        source.withLock { $0 = make }
    }

    /// Sets the address of the page where a user logs in and agrees to scopes; `nil` if there is none. Called before the
    /// server starts.
    package func registerConsentPage(_ url: @escaping @Sendable (_ userID: Int64, _ scopes: [String]) -> String?) {
        consentPage.withLock { $0 = url }
    }

    /// Returns the source of an event loop. Without a registered one, no user has a token.
    package func source(_ loop: LoopServices) -> any UserTokenSource {
        source.withLock { $0 }?(loop) ?? NoUserTokens()
    }

    /// Returns the address of the page where a user logs in and agrees to scopes, for the member `consent_url` of a
    /// problem.
    package func consentURL(userID: Int64, scopes: [String]) -> String? {
        consentPage.withLock { $0 }?(userID, scopes)
    }
}

/// The source of a server that keeps no tokens.
private struct NoUserTokens: UserTokenSource {
    func accessToken(of userID: Int64, replacing rejected: String?) throws -> String {
        throw Problem(
            of: .accountLoginRequired,
            "Kakao accepts this call only with the user's access token, and none is stored here."
        )
    }
}

extension ProblemKind {
    /// The server has no valid token of the user.
    package static let accountLoginRequired = ProblemKind(
        .conflict,
        "login-required",
        "The call needs an access token of the user, and none is stored here."
    )
}
