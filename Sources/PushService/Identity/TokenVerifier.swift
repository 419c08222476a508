internal import EventLoop
internal import Glibc
internal import HTTPClient
internal import JSON

/// Which JSON Web Tokens of one issuer are believed, and whose they are (RFC 7519 §7.2, RFC 8725).
struct TokenVerifier: Sendable {
    /// Where the issuer's keys come from.
    enum Keys: Sendable {
        /// A secret that is shared with the issuer. A token need not name it.
        case shared(VerificationKey)
        /// Keys of a file.
        case fixed(KeySet)
        /// Keys at an address.
        case published(PublishedKeys)
    }

    /// How far, in seconds, the issuer's clock may be from ours.
    private static let leeway: Int64 = 30

    let issuer: String
    /// For whom a token may be: it names one of them at least.
    let audiences: Set<String>
    /// How a token may be signed.
    let algorithms: Set<SignatureAlgorithm>
    let keys: Keys

    /// Why a token is not its issuer's to us.
    enum Objection: Sendable {
        /// It names another issuer, or none.
        case issuer
        /// It is for others.
        case audience
        /// It is signed in another way than is accepted, or names no key, or one that the issuer does not have.
        case key
        /// It was not signed with the key that it names, or was changed since.
        case signature
    }

    /// The user whom a token is of; `nil` for one that is not believed.
    ///
    /// - Parameters:
    ///   - client: Of `loop`.
    ///   - loop: The calling one.
    /// - Throws: ``Problem`` 503 when the keys cannot be fetched.
    func user(of token: JSONWebToken, _ client: HTTPClient, on loop: EventLoop) async throws -> Int64? {
        guard Self.isInForce(token.claims, at: Int64(time(nil))), let userID = Self.userID(token.claims["sub"]),
            try await objection(to: token, isUrgent: false, client, on: loop) == nil
        else { return nil }
        return userID
    }

    /// Why a token is not the issuer's to us; `nil` for one that is. When it is in force, and what it says, is not looked at here.
    ///
    /// - Parameters:
    ///   - isUrgent: The token comes once, and an unknown key is worth more.
    ///   - client: Of `loop`.
    ///   - loop: The calling one.
    /// - Throws: ``Problem`` 503 when the key is unknown and the keys cannot be fetched now.
    func objection(
        to token: JSONWebToken,
        isUrgent: Bool,
        _ client: HTTPClient,
        on loop: EventLoop
    ) async throws -> Objection? {
        // The signature last: only what could be a token of this issuer is worth a fetch of its keys.
        guard token.claims["iss"]?.string == issuer else { return .issuer }
        guard isForUs(token.claims["aud"]) else { return .audience }
        guard algorithms.contains(token.algorithm), let key = try await key(of: token, isUrgent, client, on: loop)
        else {
            return .key
        }
        return token.isSigned(with: key) ? nil : .signature
    }

    private func key(
        of token: JSONWebToken,
        _ isUrgent: Bool,
        _ client: HTTPClient,
        on loop: EventLoop
    ) async throws -> VerificationKey? {
        if case .shared(let key) = keys { return key }
        guard let keyID = token.keyID else { return nil }
        switch keys {
        case .shared(let key): return key
        case .fixed(let keys): return keys.key(keyID)
        case .published(let keys): return try await keys.key(keyID, isUrgent: isUrgent, client, on: loop)
        }
    }

    /// A text, or an array of texts (RFC 7519 §4.1.3).
    private func isForUs(_ audience: JSONValue?) -> Bool {
        if let audience = audience?.string { return audiences.contains(audience) }
        return audience?.array?.contains { $0.string.map(audiences.contains) ?? false } ?? false
    }

    /// - Parameter now: Seconds since 1970.
    private static func isInForce(_ claims: JSONObject, at now: Int64) -> Bool {
        guard let end = claims["exp"].flatMap(seconds), end > now - leeway else { return false }
        for name in ["nbf", "iat"] {
            guard let claim = claims[name] else { continue }
            guard let start = seconds(claim), start <= now + leeway else { return false }
        }
        return true
    }

    /// Seconds since 1970, which may have a fraction (RFC 7519 §2).
    static func seconds(_ value: JSONValue) -> Int64? {
        value.integer ?? value.number.flatMap { Double($0.text) }.flatMap { Int64(exactly: $0.rounded(.down)) }
    }

    /// A user's number, as text or as it is.
    static func userID(_ subject: JSONValue?) -> Int64? {
        let number = subject?.string.flatMap { Int64(decimal: $0) } ?? subject?.integer
        return number.flatMap { $0 > 0 ? $0 : nil }
    }
}
