import Crypto
import Endpoints
import HTTPClient
import HTTPServer
import HTTPTypes
import KakaoAPI
import Net
import Runtime

/// Authentication and authorization of callers.
struct Authenticator: Authorizer {
    /// The secrets of this authenticator's event loop, as are `keys`, `kakao` and `client`.
    let secrets: LoopValue<AcceptedSecrets>.Copy
    /// Shared by all event loops, as are `users`, `limits` and `monitoring`.
    let operators: OperatorKeys
    let keys: OperatorKeyStore
    let users: UserCredentials
    let limits: UserRequestLimits
    let appKeyLimits: AppKeyLimits
    let monitoring: MonitoringAccess
    let kakao: KakaoClient
    let client: HTTPClient
    /// Whether operator keys are accepted. The public port beside a port for operators rejects valid ones like unknown
    /// ones.
    let admitsOperators: Bool
    /// The addresses of the service's backends: see ``isTrusted(_:)``.
    let trustedAddresses: TrustedProxies
    /// Whether the detail of a 401 says why the credential is not accepted.
    let explainsRejections: Bool

    /// Returns the check for an operation with this access; `nil` for a public one.
    ///
    /// The check throws a database error or a ``Problem``: 401 without a valid credential, 403 for a key that lacks a
    /// scope, 404 for a wrong secret address, 429 for too many requests, 503 when the token cannot be verified now. A credential of a kind
    /// that is switched off is 403 in Kakao's format, elsewhere 409.
    func check(_ access: Access, inKakaoFormat: Bool) -> HeadCheck? {
        switch access {
        case .anyone, .operatorPort: nil
        case .operator(let scopes): { try checkOperator($0, .all(scopes)) }
        case .operatorWithAny(let scopes): { try checkOperator($0, .any(scopes)) }
        case .monitoring: { try monitoring.check($0) { try checkOperator($0, .all([.read])) } }
        case .device:
            {
                let access = UserAccess(
                    operators: .all([.devices]),
                    inKakaoFormat: inKakaoFormat,
                    acceptsAnyToken: true
                )
                return try checkUser($0, access)
            }
        case .user:
            { try checkUser($0, UserAccess(operators: .none, inKakaoFormat: inKakaoFormat, acceptsAnyToken: true)) }
        case .kakaoUser(let scope, let admitsUnlinked):
            {
                let access = UserAccess(
                    operators: .all([scope]),
                    inKakaoFormat: inKakaoFormat,
                    admitsUnlinked: admitsUnlinked
                )
                return try checkUser($0, access)
            }
        case .appKey(let scope): { try checkApp($0, or: scope) }
        case .kakao: { try checkKakao($0) }
        case .kakaoAddress: { try checkAddress($0) }
        }
    }

    /// The scopes that a key must have.
    private enum Requirement: Sendable {
        case all([Scope])
        /// At least one of them.
        case any([Scope])
        /// No key is admitted, since the operation is for users' apps only.
        case none

        /// - Throws: ``Problem`` 403 if a scope is missing, or if no key is admitted.
        func check(_ granted: Set<Scope>, of place: KeyPlace) throws {
            switch self {
            case .none:
                throw Problem(
                    of: .missingScope,
                    "Only users' apps may call this operation, for their own user. Send the user's token."
                )
            case .all(let scopes):
                guard let missing = scopes.first(where: { !$0.isAllowed(by: granted) }) else { return }
                throw Problem(of: .missingScope, "\(place.name) does not have the scope \(missing.rawValue).")
            case .any(let scopes):
                guard !scopes.contains(where: { $0.isAllowed(by: granted) }) else { return }
                let names = scopes.map(\.rawValue).joined(separator: " or ")
                throw Problem(of: .missingScope, "\(place.name) does not have the scope \(names).")
            }
        }
    }

    /// The part of a request that has its operator key.
    private enum KeyPlace: Sendable {
        case authorization
        /// `X-Operator-Key`, beside a user's token in `Authorization`.
        case besideToken
        /// The cookie of a session, which stands for the key with which the operator has signed in.
        case session

        /// The key in words that begin a sentence.
        var name: String {
            switch self {
            case .authorization, .session: "This key"
            case .besideToken: "The key in the header X-Operator-Key"
            }
        }
    }

    /// Admits a request whose operator key has the required scopes.
    ///
    /// Both `Bearer KEY` and `KakaoAK KEY` are accepted. Clients written for Kakao's API send the latter.
    ///
    /// A valid token of a user is 403: after a 401, an app would log its user out.
    private func checkOperator(_ request: Request, _ scopes: Requirement) throws -> PendingCheck? {
        if let cookie = sessionCookie(of: request) { return try checkSession(cookie, scopes, of: request) }
        let credential = try credential(of: request)
        let token = credential.text
        let sha256 = SHA256Digest.of(token)
        let rejection: CredentialRejection? = JSONWebToken.isLike(token) ? .userToken : nil
        guard credential.scheme == .bearer, !OperatorKeyStore.isKey(token), users.acceptsTokens(like: token),
            secrets.value.rejection(ofKeyWith: sha256) == nil
        else { return try checkKey(sha256, scopes, or: rejection, of: request) }
        guard users.cachedUser(of: token, TokenDigest(sha256)) == nil else { throw Self.operatorKeyRequired }
        let check: PendingCheck?
        do {
            check = try checkKey(sha256, scopes, or: rejection, of: request)
        } catch let problem as Problem where problem.status == .unauthorized {
            check = { throw problem }
        }
        guard let check else { return nil }
        return {
            do {
                try await check()
            } catch let problem as Problem where problem.status == .unauthorized {
                throw await isValidToken(token, TokenDigest(sha256), of: request) ? Self.operatorKeyRequired : problem
            }
        }
    }

    /// Returns whether a text is a user's token that is known to be valid. The limits of unknown tokens apply.
    private func isValidToken(_ token: String, _ digest: TokenDigest, of request: Request) async -> Bool {
        do {
            let isKnown = users.verifiedPayer(of: digest) != nil
            let isBackend = isTrusted(request)
            if !isKnown, !isBackend { try limits.chargeAddress(of: request) }
            let holder = try await users.holder(
                of: token,
                digest,
                from: isKnown ? nil : request.clientAddress.network,
                isBackend: isBackend,
                kakao,
                client,
                on: request.loop
            )
            return (try? holder.get()) != nil
        } catch {
            return false
        }
    }

    private static var operatorKeyRequired: Problem {
        Problem(
            of: .missingScope,
            "Only operators may call this operation, and this is a user's token. It is valid: keep it, and send an operator key here."
        )
        .rejecting(.userToken, explains: false)
    }

    /// The access to an operation on a user.
    private struct UserAccess {
        /// The operators who are admitted besides users.
        let operators: Requirement
        let inKakaoFormat: Bool
        /// Whether tokens other than access tokens of Kakao Login are accepted.
        var acceptsAnyToken = false
        /// Whether a user may call who is not linked to the app yet.
        var admitsUnlinked = false
    }

    /// Authenticates the caller of an operation on a user: an operator whose key has a scope, or a user's app that sends
    /// an accepted token as `Bearer TOKEN`. Requests of users are limited by user; those with tokens that this server has not
    /// verified before also by address, before any work is spent on them. Requests of operators are not limited.
    ///
    /// A backend sends the requests of many users from one address. No limit by address applies to it if it has a trusted
    /// address, or adds an operator key with the scope `user-calls`.
    private func checkUser(_ request: Request, _ access: UserAccess) throws -> PendingCheck? {
        if let cookie = sessionCookie(of: request) {
            return try checkSession(cookie, access.operators, of: request)
        }
        let credential = try credential(of: request)
        let sha256 = SHA256Digest.of(credential.text)
        let acceptsToken = users.acceptsTokens(like: credential.text)
        // A port without operators does not reveal their key: there it is like any other text.
        let isOperatorKey =
            (admitsOperators || acceptsToken) && secrets.value.operatorKey.matches(digest: sha256)
        guard credential.scheme == .bearer, !OperatorKeyStore.isKey(credential.text), !isOperatorKey else {
            return try checkKey(sha256, access.operators, of: request)
        }
        guard access.acceptsAnyToken || !JSONWebToken.isLike(credential.text) else {
            throw Self.kakaoTokenRequired.rejecting(.notAccessToken, explains: explainsRejections)
        }
        guard acceptsToken else {
            throw tokensOff(access, secrets.value.rejection(ofKeyWith: sha256) ?? .tokensOff)
        }
        guard let key = request[.operatorKey] else {
            return try self.checkToken(credential.text, sha256, access, of: request, isBackend: isTrusted(request))
        }
        @Sendable func checkToken() throws -> PendingCheck? {
            try self.checkToken(credential.text, sha256, access, of: request, isBackend: true)
        }
        guard let pending = try checkKey(SHA256Digest.of(key), .all([.userCalls]), .besideToken, of: request) else {
            return try checkToken()
        }
        return {
            try await pending()
            try await checkToken()?()
        }
    }

    /// Returns whether a request comes from a backend of the service: the address of the peer, or the one that a trusted proxy
    /// reports. A proxy that reports no address is none of them, since the request may be anyone's.
    private func isTrusted(_ request: Request) -> Bool {
        let isReported = !request.isForwarded || request.clientAddress != request.remoteAddress
        return isReported && trustedAddresses.contains(request.clientAddress)
    }

    /// Admits a request with an accepted token of a user.
    ///
    /// - Parameters:
    ///   - sha256: The SHA-256 of `token`.
    ///   - isBackend: Whether a backend of the service sends the request, so that its address is not limited.
    private func checkToken(
        _ token: String,
        _ sha256: [UInt8],
        _ access: UserAccess,
        of request: Request,
        isBackend: Bool
    ) throws -> PendingCheck? {
        let digest = TokenDigest(sha256)
        if let user = users.cachedUser(of: token, digest) {
            try limits.charge(.user(user.id))
            request.principal = Caller.user(user)
            return nil
        }
        // Kakao is not asked about its own keys.
        guard secrets.value.rejection(ofKeyWith: sha256) == nil else {
            return try checkKey(sha256, access.operators, of: request)
        }
        // Strangers who send invented tokens from this address must not keep its users out.
        let knownPayer = users.verifiedPayer(of: digest)
        if let knownPayer {
            try limits.charge(knownPayer)
        } else if !isBackend {
            try limits.chargeAddress(of: request)
        }
        return {
            let outcome = try await users.holder(
                of: token,
                digest,
                from: knownPayer == nil ? request.clientAddress.network : nil,
                isBackend: isBackend,
                kakao,
                client,
                on: request.loop
            )
            switch outcome {
            case .success(let holder):
                let payer = holder.payer(digest)
                if knownPayer != payer { try limits.charge(payer) }
                switch holder {
                case .user(let user): request.principal = Caller.user(user)
                case .unlinked where access.admitsUnlinked: request.principal = Caller.unlinkedUser
                case .unlinked: throw Self.userNotLinked
                }
            case .failure(.tokensOff): throw tokensOff(access, .tokensOff)
            case .failure(let reason): throw unauthorized(reason)
            }
        }
    }

    /// Returns the problem of a user's token of a kind that the settings do not accept. It is no 401, for which an app would log its user
    /// out although the token may be valid.
    private func tokensOff(_ access: UserAccess, _ reason: CredentialRejection) -> Problem {
        Problem(
            of: access.inKakaoFormat ? .callNotConfigured : .notConfigured,
            CredentialRejection.tokensOff.explanation
        )
        .rejecting(reason, explains: explainsRejections)
    }

    /// The length of the header field `KA`, in bytes. Those of Kakao's SDKs have some two hundred.
    private static let agentLength = 1...1024

    /// Authenticates the caller of an operation that phones and pages may call with one of the app's own keys. Such calls are
    /// limited before any of their body is read.
    ///
    /// If the settings do not admit these keys, the operation is switched off for operators, too. A caller with `KakaoAK` learns that,
    /// whatever the key is.
    private func checkApp(_ request: Request, or scope: Scope) throws -> PendingCheck? {
        if let cookie = sessionCookie(of: request) { return try checkSession(cookie, .all([scope]), of: request) }
        let credential = try credential(of: request)
        guard credential.scheme == .kakaoAK else { return try checkOperator(request, .all([scope])) }
        guard secrets.value.admitsPublicKeys else { throw Self.appKeyCallsOff }
        guard secrets.value.isPublicKey(SHA256Digest.of(credential.text)) else {
            return try checkOperator(request, .all([scope]))
        }
        try appKeyLimits.charge(request.clientAddress.network)
        guard let agent = request[.ka], Self.agentLength.contains(agent.utf8.count),
            agent.utf8.allSatisfy({ (0x20...0x7E).contains($0) })
        else {
            throw Self.agentRequired.rejecting(.noAgent, explains: explainsRejections)
        }
        request.principal = Caller.app(AppCaller(key: credential.text, agent: agent))
        return nil
    }

    /// Admits a request whose key has the required scopes.
    ///
    /// - Parameters:
    ///   - digest: The SHA-256 of the key.
    ///   - rejection: The reason for a credential that is no key, if its form suggests one.
    private func checkKey(
        _ digest: [UInt8],
        _ scopes: Requirement,
        _ place: KeyPlace = .authorization,
        or rejection: CredentialRejection? = nil,
        of request: Request
    ) throws -> PendingCheck? {
        let rejection = secrets.value.rejection(ofKeyWith: digest) ?? rejection
        // It is no guess, and all phones of a carrier have it: it must not make their address wait.
        guard !secrets.value.isPublicKey(digest) else { throw unauthorized(.appKey, place) }
        guard admitsOperators else {
            try operators.recordRejection(from: request.clientAddress.network)
            throw unauthorized(rejection ?? .publicPort, place)
        }
        guard !secrets.value.operatorKey.matches(digest: digest) else {
            try scopes.check(KeyIdentity.setting.scopes, of: place)
            request.principal = Caller.operator(.setting)
            return nil
        }
        return try check(.key(digest), scopes, place, of: request) {
            if let rejection { return rejection }
            return (try? await keys.rejection(ofKeyWith: digest)) ?? .unknownKey
        }
    }

    /// Admits a request with a key or a session whose key has the required scopes.
    ///
    /// - Parameter rejection: Returns why the credential is not accepted.
    private func check(
        _ credential: StoredCredential,
        _ scopes: Requirement,
        _ place: KeyPlace,
        of request: Request,
        _ rejection: @escaping @Sendable () async -> CredentialRejection
    ) throws -> PendingCheck? {
        @Sendable func admit(_ key: KeyIdentity) throws {
            request.principal = Caller.operator(key)
            try scopes.check(key.scopes, of: place)
        }
        if let known = try operators.knownKey(of: credential, from: request.clientAddress.network) {
            try admit(known)
            return nil
        }
        return {
            let known = try await operators.key(
                of: credential,
                from: request.clientAddress.network,
                keys,
                on: request.loop
            )
            guard let known else { throw unauthorized(await rejection(), place) }
            try admit(known)
        }
    }

    /// Returns the cookie of a request of the operator's page; `nil` for a request with another credential.
    private func sessionCookie(of request: Request) -> SessionCookie? {
        admitsOperators && request[.authorization] == nil ? SessionCookie(request) : nil
    }

    /// Admits a request of the operator's page, whose session stands in place of the key.
    private func checkSession(
        _ cookie: SessionCookie,
        _ scopes: Requirement,
        of request: Request
    ) throws -> PendingCheck? {
        try PageOrigin.checkPlace(request)
        try PageOrigin.checkSender(request)
        let credential = StoredCredential.session(cookie.digest, setting: secrets.value.operatorKey.sha256)
        return try check(credential, scopes, .session, of: request) { .endedSession }
    }

    /// Admits a request that carries the Admin key, as those of Kakao's servers do.
    private func checkKakao(_ request: Request) throws -> PendingCheck? {
        let credential = try credential(of: request)
        guard credential.scheme == .kakaoAK, secrets.value.hasAdminKey(credential.text) else {
            throw unauthorized(.notAdminKey)
        }
        request.principal = Caller.kakao
        request.exemptsConnection = true
        return nil
    }

    /// Admits a request whose path contains the secret, which only Kakao's servers know.
    private func checkAddress(_ request: Request) throws -> PendingCheck? {
        guard let secret = secrets.value.feedback, secret.matches(request.pathParameter("secret")) else {
            throw Problem(of: .notFound, "There is nothing at this path.")
        }
        request.principal = Caller.kakao
        request.exemptsConnection = true
        return nil
    }

    /// Returns the credential of a request.
    ///
    /// - Throws: ``Problem`` 401.
    private func credential(of request: Request) throws -> Credential {
        if let credential = Credential(request) { return credential }
        throw unauthorized(request[.authorization] == nil ? .missing : .unknownScheme)
    }

    private func unauthorized(_ reason: CredentialRejection, _ place: KeyPlace = .authorization) -> Problem {
        switch place {
        case .authorization, .session: return Self.unauthorized.rejecting(reason, explains: explainsRejections)
        case .besideToken:
            let cause = explainsRejections ? reason.explanation : "It is unknown, revoked or expired."
            return Self.invalidOperatorKey(cause).rejecting(reason, explains: false)
        }
    }

    /// The problem of an invalid key beside a user's token. Its challenge names the header of the key (RFC 9110 §11.6.1), and neither it nor
    /// the code says anything of the token.
    private static func invalidOperatorKey(_ cause: String) -> Problem {
        Problem(
            of: .invalidOperatorKey,
            """
            \(KeyPlace.besideToken.name) is not accepted. \(cause) Send a valid operator key with the scope \
            \(Scope.userCalls.rawValue), or omit the header. The user's token is not the cause.
            """,
            headerFields: [.wwwAuthenticate: "OperatorKey realm=\"X-Operator-Key\""]
        )
    }

    private static var appKeyCallsOff: Problem {
        Problem(of: .callNotConfigured, "Calls with an app key are switched off. Set `sharing.app_key_calls`.")
    }

    private static var kakaoTokenRequired: Problem {
        Problem(
            of: .unauthorized,
            "This call needs an access token of Kakao Login. Send it as Authorization: Bearer TOKEN."
        )
    }

    /// The problem of a user who is not linked to the app yet, with Kakao's code for it.
    private static var userNotLinked: Problem {
        Problem(
            ProblemKind.userNotLinked.status,
            code: KakaoErrorCode.userNotLinked.rawValue,
            kind: ProblemKind.userNotLinked.name,
            "The user has logged in, and is not linked to the app. Sign the user up with POST /v1/user/signup."
        )
    }

    private static var agentRequired: Problem {
        Problem(
            of: .unauthorized,
            "A call with an app key needs the header KA of Kakao's SDKs: up to \(agentLength.upperBound) printable ASCII characters."
        )
    }

    static var unauthorized: Problem {
        Problem(
            of: .unauthorized,
            "Missing, invalid or expired credentials. Send a key or token as Authorization: Bearer KEY."
        )
    }
}
