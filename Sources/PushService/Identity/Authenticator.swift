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

    /// The check of a route with this access; `nil` for a public route.
    ///
    /// It throws ``Problem``: 401 without a valid credential, 403 for a key that does not allow the call, 404 for another address, 429 for too
    /// many requests, 503 when it cannot be found out whose a token is; or an error of the database.
    func check(_ access: Access) -> HeadCheck? {
        switch access {
        case .anyone: nil
        case .operator(let scopes): { try checkOperator($0, scopes) }
        case .deviceCaller: { try checkDeviceCaller($0) }
        case .kakao: { try checkKakao($0) }
        case .kakaoAddress(let secret): { try Self.checkAddress($0, secret) }
        }
    }

    /// Lets a request of an operator pass whose key has the scopes.
    ///
    /// Both spellings are taken: `Bearer KEY`, and `KakaoAK KEY` of clients that were written for Kakao.
    private func checkOperator(_ request: Request, _ scopes: [Scope]) throws -> PendingCheck? {
        guard let credential = Credential(request) else { throw Self.unauthorized }
        return try checkKey(SHA256Digest.of(credential.text), scopes, of: request)
    }

    /// Tells the operator keys apart that requests carry: the key's SHA-256, or nothing for the first key, which is a setting and may change.
    func operatorKeyID(of request: Request) -> [UInt8] {
        guard let credential = Credential(request) else { return [] }
        let digest = SHA256Digest.of(credential.text)
        return operatorKey.matches(digest: digest) ? [] : digest
    }

    /// Finds out who calls a device endpoint: an operator whose key has the scope `devices`, or a user's app with a token that is
    /// accepted from users, as `Bearer TOKEN`. How often users may call is limited, by user and by address; operators are not.
    private func checkDeviceCaller(_ request: Request) throws -> PendingCheck? {
        guard let credential = Credential(request) else { throw Self.unauthorized }
        let digest = SHA256Digest.of(credential.text)
        guard users.isAccepted, credential.scheme == .bearer, !OperatorKeyStore.isKey(credential.text),
            !operatorKey.matches(digest: digest)
        else {
            request.principal = DeviceCaller.operatorPrincipal
            return try checkKey(digest, [.devices], of: request)
        }
        try limits.takeFromAddress(of: request)
        if let user = users.rememberedUser(of: credential.text, digest) {
            try admit(user, request)
            return nil
        }
        return {
            let user = try await users.user(
                of: credential.text,
                digest,
                from: request.clientAddress.network,
                kakao,
                client,
                on: request.loop
            )
            guard let user else { throw Self.unauthorized }
            try admit(user, request)
        }
    }

    private func admit(_ user: AuthorizedUser, _ request: Request) throws {
        try limits.take(from: user.id)
        request.principal = user.id
        request.authenticatedAt = user.authorizedAt
    }

    private func checkKey(_ digest: [UInt8], _ scopes: [Scope], of request: Request) throws -> PendingCheck? {
        if operatorKey.matches(digest: digest) { return nil }
        if let known = try operators.knownScopes(ofKeyWith: digest, from: request.clientAddress.network) {
            try Self.require(scopes, of: known)
            return nil
        }
        return {
            let known = try await operators.scopes(
                ofKeyWith: digest,
                from: request.clientAddress.network,
                keys,
                on: request.loop
            )
            guard let known else { throw Self.unauthorized }
            try Self.require(scopes, of: known)
        }
    }

    private static func require(_ scopes: [Scope], of known: Set<Scope>) throws {
        guard let missing = scopes.first(where: { !$0.isAllowed(by: known) }) else { return }
        throw Problem(.forbidden, kind: "missing-scope", "This key does not have the scope \(missing.rawValue).")
    }

    /// Lets a request of Kakao's own servers pass, which carry the Admin key.
    private func checkKakao(_ request: Request) throws -> PendingCheck? {
        guard let credential = Credential(request), credential.scheme == .kakaoAK, adminKey.matches(credential.text)
        else {
            throw Self.unauthorized
        }
        request.exemptsConnection = true
        return nil
    }

    /// Lets a request of Kakao's own servers pass, which know the address.
    private static func checkAddress(_ request: Request, _ secret: Secret) throws -> PendingCheck? {
        guard secret.matches(request.pathParameter("secret")) else {
            throw Problem(.notFound, "There is nothing at this path.")
        }
        request.exemptsConnection = true
        return nil
    }

    static var unauthorized: Problem {
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
