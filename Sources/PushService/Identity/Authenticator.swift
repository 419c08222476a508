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
        guard let key = Self.credential(request, schemes: ["bearer", "kakaoak"]) else { throw Self.unauthorized }
        try await require(key, scope, of: request)
    }

    /// Finds out who calls a device endpoint: an operator whose key has the scope `devices`, or a user's app with a token that is
    /// accepted from users, as `Bearer TOKEN`. How often users may call is limited, by user and by address; operators are not.
    ///
    /// - Throws: ``Problem``: 401 without a key or token in force, 403 for a key that does not allow this, 429 for too many requests, 503
    ///   when it cannot be found out whose a token is; an error of the database.
    func requireDeviceCaller(_ request: Request) async throws -> DeviceCaller {
        guard let key = Self.credential(request, schemes: ["bearer", "kakaoak"]) else { throw Self.unauthorized }
        if users.isAccepted, let token = Self.credential(request, schemes: ["bearer"]),
            !OperatorKeyStore.isKey(token), !operatorKey.matches(token)
        {
            try limits.takeFromAddress(of: request)
            guard let userID = try await users.user(of: token, kakao, client, on: request.loop) else {
                throw Self.unauthorized
            }
            try limits.take(from: userID)
            return .user(userID)
        }
        try await require(key, .devices, of: request)
        return .operator
    }

    private func require(_ key: String, _ scope: Scope, of request: Request) async throws {
        let digest = SHA256Digest.of(key)
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
            "A key or a token in force is required: Authorization: Bearer KEY.",
            headerFields: [.wwwAuthenticate: "Bearer error=invalid_token"]
        )
    }
}
