import Crypto
import Endpoints
package import EventLoop
import Glibc
package import HTTPClient
package import JSON
import Schemas

/// The verification of one issuer's JSON Web Tokens (RFC 7519 §7.2, RFC 8725).
package struct TokenVerifier: Sendable {
    /// The source of the issuer's keys.
    enum Keys: Sendable {
        /// A secret shared with the issuer. A token need not name it.
        case shared(VerificationKey)
        /// Keys from a file.
        case fixed(KeySet)
        /// Keys fetched from a URL.
        case published(PublishedKeys)
    }

    /// The tolerated difference between the issuer's clock and this server's, in seconds.
    private static let leeway: Int64 = 30

    let issuer: String
    /// The accepted audiences. A token has to name at least one.
    let audiences: Set<String>
    /// The accepted signature algorithms.
    let algorithms: Set<SignatureAlgorithm>
    let keys: Keys

    /// The reason why a token is rejected.
    package enum RejectionReason: Sendable {
        /// The token names another issuer, or none.
        case issuer
        /// The token is for other audiences.
        case audience
        /// The token's algorithm is not accepted, or it names no key, or a key that the issuer does not have.
        case key
        /// The token was not signed with the key that it names, or was changed since.
        case signature
    }

    /// Returns the user of a token; `nil` for an invalid token.
    ///
    /// - Parameters:
    ///   - client: The client of `loop`.
    ///   - loop: The caller's event loop.
    /// - Throws: ``UndecidedKey``
    package func user(
        of token: JSONWebToken,
        _ client: HTTPClient,
        on loop: EventLoop
    ) async throws(UndecidedKey) -> Int64? {
        try? await verify(token, client, on: loop).get()
    }

    /// Returns the user of a token, or the reason why it is rejected.
    ///
    /// - Parameters:
    ///   - client: The client of `loop`.
    ///   - loop: The caller's event loop.
    /// - Throws: ``UndecidedKey``
    func verify(
        _ token: JSONWebToken,
        _ client: HTTPClient,
        on loop: EventLoop
    ) async throws(UndecidedKey) -> Result<Int64, CredentialRejection> {
        if let rejection = Self.rejection(of: token.claims, at: Int64(time(nil))) { return .failure(rejection) }
        guard let userID = Self.userID(token.claims["sub"]) else { return .failure(.noUser) }
        switch try await rejectionReason(of: token, isUrgent: false, client, on: loop) {
        case nil: return .success(userID)
        case .issuer: return .failure(.unknownIssuer)
        case .audience: return .failure(.anotherAudience)
        case .key: return .failure(.unknownSigningKey)
        case .signature: return .failure(.badSignature)
        }
    }

    /// Returns the reason to reject a token; `nil` if its issuer signed it for one of the accepted audiences. The
    /// validity period and other claims are not checked here.
    ///
    /// - Parameters:
    ///   - arrival: When the token arrived. Keys that were fetched since then are not fetched again for it.
    ///   - isUrgent: Whether the token arrives only once, so that the keys may be fetched sooner.
    ///   - client: The client of `loop`.
    ///   - loop: The caller's event loop.
    /// - Throws: ``UndecidedKey``
    package func rejectionReason(
        of token: JSONWebToken,
        since arrival: MonotonicTime = .now,
        isUrgent: Bool,
        _ client: HTTPClient,
        on loop: EventLoop
    ) async throws(UndecidedKey) -> RejectionReason? {
        // The signature is checked last: only a token that may be this issuer's is worth a fetch of keys.
        guard token.claims["iss"]?.string == issuer else { return .issuer }
        guard isForUs(token.claims["aud"]) else { return .audience }
        guard algorithms.contains(token.algorithm),
            let key = try await key(of: token, arrival, isUrgent, client, on: loop)
        else { return .key }
        return token.isSigned(with: key) ? nil : .signature
    }

    private func key(
        of token: JSONWebToken,
        _ arrival: MonotonicTime,
        _ isUrgent: Bool,
        _ client: HTTPClient,
        on loop: EventLoop
    ) async throws(UndecidedKey) -> VerificationKey? {
        switch (keys, token.keyID) {
        case (.shared(let key), _): key
        case (.fixed, nil), (.published, nil): nil
        case (.fixed(let keys), let keyID?): keys.key(keyID)
        case (.published(let keys), let keyID?):
            try await keys.key(keyID, since: arrival, isUrgent: isUrgent, client, on: loop)
        }
    }

    /// Returns whether `aud`, a string or an array of strings, names an accepted audience (RFC 7519 §4.1.3).
    private func isForUs(_ audience: JSONValue?) -> Bool {
        if let audience = audience?.string { return audiences.contains(audience) }
        return audience?.array?.contains { $0.string.map(audiences.contains) ?? false } ?? false
    }

    /// Returns why a token is not valid at a time, by `exp` and, if present, `nbf` and `iat`; `nil` if it is.
    ///
    /// - Parameter now: Seconds since 1970.
    private static func rejection(of claims: JSONObject, at now: Int64) -> CredentialRejection? {
        guard let end = claims["exp"].flatMap(seconds) else { return .malformedToken }
        guard end > now - leeway else { return .expiredToken }
        for name in ["nbf", "iat"] {
            guard let claim = claims[name] else { continue }
            guard let start = seconds(claim) else { return .malformedToken }
            guard start <= now + leeway else { return .prematureToken }
        }
        return nil
    }

    /// Returns the seconds since 1970 of a claim, rounded down. The claim may have a fraction (RFC 7519 §2).
    package static func seconds(_ value: JSONValue) -> Int64? {
        value.integer ?? value.number?.double.flatMap { Int64(exactly: $0.rounded(.down)) }
    }

    /// Returns a user's id from a string or a number; `nil` unless it is a positive integer.
    package static func userID(_ subject: JSONValue?) -> Int64? {
        let number = subject?.string.flatMap { Int64(decimal: $0) } ?? subject?.integer
        return number.flatMap { $0 > 0 ? $0 : nil }
    }
}
