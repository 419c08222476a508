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

    /// Returns the check for an operation with this access; `nil` for a public one.
    ///
    /// The check throws a database error or a ``Problem``: 401 without a valid credential, 403 for a key that lacks a
    /// scope, 404 for a wrong secret address, 429 for too many requests, 503 when the token cannot be verified now.
    func check(_ access: Access) -> HeadCheck? {
        switch access {
        case .anyone, .operatorPort: nil
        case .operator(let scopes): { try checkOperator($0, .all(scopes)) }
        case .operatorWithAny(let scopes): { try checkOperator($0, .any(scopes)) }
        case .monitoring: { try monitoring.check($0) { try checkOperator($0, .all([.read])) } }
        case .device: { try checkUser($0, or: .devices, acceptsAnyToken: true) }
        case .kakaoUser(let scope): { try checkUser($0, or: scope, acceptsAnyToken: false) }
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

        /// - Throws: ``Problem`` 403 if a scope is missing.
        func check(_ granted: Set<Scope>) throws {
            switch self {
            case .all(let scopes):
                guard let missing = scopes.first(where: { !$0.isAllowed(by: granted) }) else { return }
                throw Problem(of: .missingScope, "This key does not have the scope \(missing.rawValue).")
            case .any(let scopes):
                guard !scopes.contains(where: { $0.isAllowed(by: granted) }) else { return }
                let names = scopes.map(\.rawValue).joined(separator: " or ")
                throw Problem(of: .missingScope, "This key does not have the scope \(names).")
            }
        }
    }

    /// Admits a request whose operator key has the required scopes.
    ///
    /// Both `Bearer KEY` and `KakaoAK KEY` are accepted. Clients written for Kakao's API send the latter.
    private func checkOperator(_ request: Request, _ scopes: Requirement) throws -> PendingCheck? {
        guard let credential = Credential(request) else { throw Self.unauthorized }
        return try checkKey(SHA256Digest.of(credential.text), scopes, of: request)
    }

    /// Authenticates the caller of an operation on a user: an operator whose key has a scope, or a user's app that sends
    /// an accepted token as `Bearer TOKEN`. Requests of users are limited by user; those with tokens that this server has not
    /// verified before also by address, before any work is spent on them. Requests of operators are not limited.
    ///
    /// - Parameter acceptsAnyToken: Whether tokens other than access tokens of Kakao Login are accepted.
    private func checkUser(_ request: Request, or scope: Scope, acceptsAnyToken: Bool) throws -> PendingCheck? {
        guard let credential = Credential(request) else { throw Self.unauthorized }
        let sha256 = SHA256Digest.of(credential.text)
        guard users.isAccepted, credential.scheme == .bearer, !OperatorKeyStore.isKey(credential.text),
            !secrets.value.operatorKey.matches(digest: sha256)
        else {
            return try checkKey(sha256, .all([scope]), of: request)
        }
        guard acceptsAnyToken || !JSONWebToken.isLike(credential.text) else { throw Self.kakaoTokenRequired }
        let digest = TokenDigest(sha256)
        if let user = users.cachedUser(of: credential.text, digest) {
            try limits.chargeUser(user.id)
            request.principal = Caller.user(user)
            return nil
        }
        // Strangers who send invented tokens from this address must not keep its users out.
        let verifiedUser = users.verifiedUser(of: digest)
        if let verifiedUser {
            try limits.chargeUser(verifiedUser)
        } else {
            try limits.chargeAddress(of: request)
        }
        return {
            let user = try await users.user(
                of: credential.text,
                digest,
                from: verifiedUser == nil ? request.clientAddress.network : nil,
                kakao,
                client,
                on: request.loop
            )
            guard let user else { throw Self.unauthorized }
            if verifiedUser != user.id { try limits.chargeUser(user.id) }
            request.principal = Caller.user(user)
        }
    }

    /// The length of the header field `KA`, in bytes. Those of Kakao's SDKs have some two hundred.
    private static let kaLength = 1...1024

    /// Authenticates the caller of an operation that phones and pages may call with one of the app's own keys. Such calls are
    /// limited before any of their body is read.
    private func checkApp(_ request: Request, or scope: Scope) throws -> PendingCheck? {
        guard let credential = Credential(request) else { throw Self.unauthorized }
        let digest = SHA256Digest.of(credential.text)
        guard credential.scheme == .kakaoAK, secrets.value.admitsPublicKey(digest: digest) else {
            return try checkKey(digest, .all([scope]), of: request)
        }
        try appKeyLimits.charge(request.clientAddress.network)
        guard let ka = request[.ka], Self.kaLength.contains(ka.utf8.count),
            ka.utf8.allSatisfy({ (0x20...0x7E).contains($0) })
        else {
            throw Problem(
                of: .unauthorized,
                "A call with an app key needs the header KA of Kakao's SDKs, of at most \(Self.kaLength.upperBound) ASCII characters.",
                headerFields: [.wwwAuthenticate: "KakaoAK"]
            )
        }
        request.principal = Caller.app(AppCaller(key: credential.text, ka: ka))
        return nil
    }

    private func checkKey(_ digest: [UInt8], _ scopes: Requirement, of request: Request) throws -> PendingCheck? {
        // It is no guess, and all phones of a carrier have it: it must not make their address wait.
        guard !secrets.value.hasPublicKey(digest: digest) else { throw Self.appKeyNotAdmitted }
        guard admitsOperators else {
            try operators.recordRejection(from: request.clientAddress.network)
            throw Self.unauthorized
        }
        guard !secrets.value.operatorKey.matches(digest: digest) else {
            request.principal = Caller.operator(.setting)
            return nil
        }
        @Sendable func admit(_ grant: OperatorKeys.Grant) throws {
            request.principal = Caller.operator(KeyIdentity(id: grant.id, name: grant.name, digest: digest))
            try scopes.check(grant.scopes)
        }
        if let known = try operators.knownGrant(ofKeyWith: digest, from: request.clientAddress.network) {
            try admit(known)
            return nil
        }
        return {
            let known = try await operators.grant(
                ofKeyWith: digest,
                from: request.clientAddress.network,
                keys,
                on: request.loop
            )
            guard let known else { throw Self.unauthorized }
            try admit(known)
        }
    }

    /// Admits a request that carries the Admin key, as those of Kakao's servers do.
    private func checkKakao(_ request: Request) throws -> PendingCheck? {
        guard let credential = Credential(request), credential.scheme == .kakaoAK,
            secrets.value.hasAdminKey(credential.text)
        else {
            throw Self.unauthorized
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

    private static var kakaoTokenRequired: Problem {
        Problem(
            of: .unauthorized,
            "This call needs an access token of Kakao Login. Send it as Authorization: Bearer TOKEN.",
            headerFields: [.wwwAuthenticate: "Bearer error=invalid_token"]
        )
    }

    private static var appKeyNotAdmitted: Problem {
        Problem(
            of: .unauthorized,
            "This server does not accept the app's own key for this call. Send an operator key or a user's token.",
            headerFields: [.wwwAuthenticate: "Bearer error=invalid_token"]
        )
    }

    static var unauthorized: Problem {
        Problem(
            of: .unauthorized,
            "Missing, invalid or expired credentials. Send a key or token as Authorization: Bearer KEY.",
            headerFields: [.wwwAuthenticate: "Bearer error=invalid_token"]
        )
    }
}
