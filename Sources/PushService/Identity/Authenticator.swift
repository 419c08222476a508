internal import HTTPClient
internal import HTTPServer
internal import HTTPTypes
internal import KakaoAPI

/// Finds out who calls, and whether they may.
struct Authenticator: Sendable {
    private let operatorKey: Secret
    private let adminKey: Secret
    private let operators: OperatorKeys
    private let keys: OperatorKeyStore
    private let users: UserCredentials
    private let limits: DeviceRequestLimits
    private let kakao: KakaoUserAPI
    private let client: HTTPClient

    /// - Parameters:
    ///   - operators: The same for all loops, as `users` and `limits` are.
    ///   - kakao: Of the loop that it works on, as `keys` and `client` are.
    init(
        operatorKey: Secret,
        adminKey: Secret,
        operators: OperatorKeys,
        keys: OperatorKeyStore,
        users: UserCredentials,
        limits: DeviceRequestLimits,
        kakao: KakaoUserAPI,
        client: HTTPClient
    ) {
        self.operatorKey = operatorKey
        self.adminKey = adminKey
        self.operators = operators
        self.keys = keys
        self.users = users
        self.limits = limits
        self.kakao = kakao
        self.client = client
    }

    /// Lets a request of an operator pass whose key has `scope`.
    ///
    /// Both spellings are taken: `Bearer KEY`, and `KakaoAK KEY` of clients that were written for Kakao.
    ///
    /// - Throws: ``Problem``: 401 without a key in force, 403 with one that does not allow this, 429 for an unknown one from an address
    ///   that has presented too many bad ones; an error of the database.
    func requireOperator(_ request: Request, _ scope: Scope) async throws {
        guard let credential = Credential(request) else { throw Self.unauthorized }
        try await require(SHA256Digest.of(credential.text), scope, of: request)
    }

    /// Finds out who calls a device endpoint: an operator whose key has the scope `devices`, or a user's app with a token that is
    /// accepted from users, as `Bearer TOKEN`. How often users may call is limited, by user and by address; operators are not.
    ///
    /// - Throws: ``Problem``: 401 without a key or token in force, 403 for a key that does not allow this, 429 for too many requests, 503
    ///   when it cannot be found out whose a token is; an error of the database.
    func requireDeviceCaller(_ request: Request) async throws -> DeviceCaller {
        guard let credential = Credential(request) else { throw Self.unauthorized }
        let digest = SHA256Digest.of(credential.text)
        if users.isAccepted, credential.scheme == .bearer, !OperatorKeyStore.isKey(credential.text),
            !operatorKey.matches(digest: digest)
        {
            try limits.takeFromAddress(of: request)
            guard let userID = try await users.user(of: credential.text, digest, kakao, client, on: request.loop) else {
                throw Self.unauthorized
            }
            try limits.take(from: userID)
            return .user(userID)
        }
        try await require(digest, .devices, of: request)
        return .operator
    }

    private func require(_ digest: [UInt8], _ scope: Scope, of request: Request) async throws {
        if operatorKey.matches(digest: digest) { return }
        let scopes = try await operators.scopes(
            ofKeyWith: digest,
            from: request.clientAddress.network,
            keys,
            on: request.loop
        )
        guard let scopes else { throw Self.unauthorized }
        guard scope.isAllowed(by: scopes) else {
            throw Problem(.forbidden, kind: "missing-scope", "This key does not have the scope \(scope.rawValue).")
        }
    }

    /// Lets a request of Kakao's own servers pass, which carry the Admin key.
    ///
    /// - Throws: ``Problem`` 401.
    func requireKakao(_ request: Request) throws {
        guard let credential = Credential(request), credential.scheme == .kakaoAK, adminKey.matches(credential.text)
        else {
            throw Self.unauthorized
        }
    }

    private static var unauthorized: Problem {
        Problem(
            .unauthorized,
            "A key or a token in force is required: Authorization: Bearer KEY.",
            headerFields: [.wwwAuthenticate: "Bearer error=invalid_token"]
        )
    }
}

/// What stands in `Authorization`.
private struct Credential {
    enum Scheme: String, CaseIterable {
        case bearer = "Bearer "
        /// Kakao's own.
        case kakaoAK = "KakaoAK "
    }

    let scheme: Scheme
    /// The key or the token.
    let text: String

    /// `nil` without one of these schemes, whose case does not matter (RFC 9110 §11.1).
    init?(_ request: Request) {
        guard let field = request[.authorization] else { return nil }
        for scheme in Scheme.allCases {
            let name = scheme.rawValue.utf8
            guard zip(field.utf8, name).allSatisfy({ $0 | 0x20 == $1 | 0x20 }), field.utf8.count > name.count else {
                continue
            }
            self.scheme = scheme
            text = String(field.utf8.dropFirst(name.count)) ?? ""
            return
        }
        return nil
    }
}
