package import Crypto
package import JSON

/// A parsed JSON Web Token, not yet verified (RFC 7519, RFC 7515 §3.1).
package struct JSONWebToken: Sendable {
    /// The purpose of a token. An issuer signs both kinds with the same keys, so neither kind may be accepted as the
    /// other (RFC 8725 §3.11).
    package enum Kind {
        /// A token that identifies the caller, such as an ID token. `typ` is optional.
        case credential
        /// A token that reports an event (RFC 8417 §2.3). `typ` is required.
        case securityEvent

        fileprivate func accepts(_ type: JSONValue?) -> Bool {
            switch self {
            case .credential: type.map { ["jwt", "at+jwt"].contains($0.string?.lowercased()) } ?? true
            case .securityEvent: type?.string?.lowercased() == "secevent+jwt"
            }
        }
    }

    /// The size limit of a token in bytes: longer than any that is sent in a header or reports an event.
    private static let maximumBytes = 8192
    private static let maximumKeyIDBytes = 256
    private static let maximumDepth = 8

    /// The algorithm that the token claims to be signed with.
    package let algorithm: SignatureAlgorithm
    /// `kid`: the issuer's key that the token claims to be signed with.
    package let keyID: String?
    package let claims: JSONObject
    private let signedBytes: [UInt8]
    private let signature: [UInt8]

    /// Returns whether a text looks like a token: three parts, the first of which begins like every encoded JSON
    /// object.
    static func isLike(_ text: String) -> Bool {
        beginsLike(text) && text.utf8.count { $0 == UInt8(ascii: ".") } == 2
    }

    /// Returns whether a text begins like every encoded JSON object.
    static func beginsLike(_ text: String) -> Bool { text.utf8.starts(with: "eyJ".utf8) }

    /// Parses a token. Returns `nil` for invalid text, for a token of the other kind, and for an unsupported algorithm
    /// such as `none`.
    package init?(_ text: String, _ kind: Kind) {
        guard text.utf8.count <= Self.maximumBytes else { return nil }
        let parts = text.utf8.split(separator: UInt8(ascii: "."), omittingEmptySubsequences: false)
        guard parts.count == 3,
            let header = Self.object(parts[0]), let claims = Self.object(parts[1]),
            let signature = Base64URL.decode(parts[2]),
            let name = header["alg"]?.string, let algorithm = SignatureAlgorithm(rawValue: name),
            // `crit` lists extensions that the recipient must understand, and none is supported (RFC 7515 §4.1.11).
            header["crit"] == nil,
            kind.accepts(header["typ"])
        else { return nil }
        if let keyID = header["kid"] {
            guard let keyID = keyID.string, keyID.utf8.count <= Self.maximumKeyIDBytes else { return nil }
            self.keyID = keyID
        } else {
            keyID = nil
        }
        self.algorithm = algorithm
        self.claims = claims
        self.signature = signature
        signedBytes = Array(text.utf8.prefix(parts[0].count + 1 + parts[1].count))
    }

    /// Returns whether the token was signed with a key. The token must name the key's algorithm.
    func isSigned(with key: VerificationKey) -> Bool {
        algorithm == key.algorithm && key.verifies(signature, of: signedBytes)
    }

    private static func object(_ part: some Collection<UInt8>) -> JSONObject? {
        guard let bytes = Base64URL.decode(part) else { return nil }
        return try? JSONValue(parsing: bytes, maximumDepth: maximumDepth).object
    }
}
