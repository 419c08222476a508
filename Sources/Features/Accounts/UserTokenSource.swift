package import Endpoints
import HTTPTypes
import KakaoAPI

/// The access tokens of users, on one event loop.
package protocol UserTokenSource: Sendable {
    /// Returns a valid access token of a user's account.
    ///
    /// - Parameter rejected: A token of the user that Kakao has just rejected with -401. It is refreshed first, unless a
    ///   concurrent call has refreshed it.
    /// - Throws: ``Problem`` 409 `login-required` if the user must log in first.
    func accessToken(of userID: Int64, replacing rejected: String?) async throws -> String
}

extension UserTokenSource {
    /// Calls `body` with an access token of a user, and once more with a new one if Kakao rejects the token: it has then done
    /// nothing.
    ///
    /// - Throws: ``Problem`` 409 `login-required` if the user must log in first; errors of `body`.
    package func withToken<Result: Sendable>(
        of userID: Int64,
        _ body: (_ token: String) async throws -> Result
    ) async throws -> Result {
        let token = try await accessToken(of: userID, replacing: nil)
        do {
            return try await body(token)
        } catch let error as KakaoError where error.disposition == .logIn {
            return try await body(try await accessToken(of: userID, replacing: token))
        }
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
