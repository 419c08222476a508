internal import HTTPServer
internal import HTTPTypes

/// Finds out who calls, and whether they may.
struct Authenticator: Sendable {
    private let operatorKey: Secret
    private let adminKey: Secret
    private let keys: OperatorKeyStore

    init(operatorKey: Secret, adminKey: Secret, keys: OperatorKeyStore) {
        self.operatorKey = operatorKey
        self.adminKey = adminKey
        self.keys = keys
    }

    /// Lets a request of an operator pass whose key has `scope`.
    ///
    /// Both spellings are taken: `Bearer KEY`, and `KakaoAK KEY` of clients that were written for Kakao.
    ///
    /// - Throws: ``Problem``: 401 without a key in force, 403 with one that does not allow this; an error of the database.
    func requireOperator(_ request: Request, _ scope: Scope) async throws {
        guard let key = Self.credential(request, schemes: ["bearer", "kakaoak"]) else { throw Self.unauthorized }
        let digest = SHA256Digest.of(key)
        if operatorKey.matches(digest: digest) { return }
        guard let scopes = try await keys.scopes(ofKeyWith: digest) else { throw Self.unauthorized }
        guard scope.isAllowed(by: scopes) else {
            throw Problem(.forbidden, kind: "missing-scope", "This key does not have the scope \(scope.rawValue).")
        }
    }

    /// Lets a request of Kakao's own servers pass, which carry the Admin key.
    ///
    /// - Throws: ``Problem`` 401.
    func requireKakao(_ request: Request) throws {
        guard let key = Self.credential(request, schemes: ["kakaoak"]), adminKey.matches(key) else {
            throw Self.unauthorized
        }
    }

    /// What follows the scheme in `Authorization`, if the scheme is one of these.
    private static func credential(_ request: Request, schemes: [String]) -> String? {
        guard let field = request[.authorization] else { return nil }
        let parts = field.split(separator: " ", maxSplits: 1)
        guard parts.count == 2, schemes.contains(parts[0].lowercased()) else { return nil }
        return String(parts[1])
    }

    private static var unauthorized: Problem {
        Problem(
            .unauthorized,
            "A key in force is required: Authorization: Bearer KEY.",
            headerFields: [.wwwAuthenticate: "Bearer error=invalid_token"]
        )
    }
}
