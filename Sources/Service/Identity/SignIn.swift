import Crypto
package import Endpoints
package import HTTPServer
import Net
import Runtime

/// Signing in to the operator's page with an operator key.
package struct SignIn: Sendable {
    private let secrets: LoopValue<AcceptedSecrets>.Copy
    private let operators: OperatorKeys
    private let keys: OperatorKeyStore
    private let sessions: OperatorSessionStore
    private let explainsRejections: Bool

    init(
        _ secrets: LoopValue<AcceptedSecrets>.Copy,
        _ operators: OperatorKeys,
        _ keys: OperatorKeyStore,
        explainsRejections: Bool
    ) {
        self.secrets = secrets
        self.operators = operators
        self.keys = keys
        self.explainsRejections = explainsRejections
        sessions = OperatorSessionStore(pool: keys.pool)
    }

    /// Starts a session with the key that an operator has entered, and returns the header field that sets its cookie. A session that the
    /// browser has had ends.
    ///
    /// - Throws: ``Problem`` 401 for an invalid key, 403 where the page may not appear and for requests that it has not sent, 429 for an
    ///   address that has entered too many invalid keys; an error of the database.
    package func start(with key: String, _ call: Call) async throws -> String {
        let request = call.request
        try PageOrigin.checkPlace(request)
        try PageOrigin.checkSender(request)
        let digest = SHA256Digest.of(key)
        let identity = try await identify(digest, request)
        request.principal = Caller.operator(identity)
        let secret = try await sessions.start(
            with: identity,
            digest,
            replacing: SessionCookie(request)?.digest,
            from: request.clientAddress.host,
            recording: call.auditRecord(of: .server)
        )
        let session = StoredCredential.session(
            SHA256Digest.of(secret),
            setting: secrets.value.operatorKey.sha256
        )
        await operators.remember(session, keys, on: request.loop)
        return SessionCookie.header(secret)
    }

    private func identify(_ digest: [UInt8], _ request: Request) async throws -> KeyIdentity {
        guard !secrets.value.operatorKey.matches(digest: digest) else { return .setting }
        let key = try await operators.key(
            of: .key(digest),
            from: request.clientAddress.network,
            keys,
            on: request.loop
        )
        if let key { return key }
        let rejection = secrets.value.rejection(ofKeyWith: digest)
        let reason =
            if let rejection { rejection } else { (try? await keys.rejection(ofKeyWith: digest)) ?? .unknownKey }
        throw Problem(of: .unauthorized, "The key is unknown, revoked or expired.")
            .rejecting(reason, explains: explainsRejections)
    }
}
