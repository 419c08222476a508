internal import JSON

/// A JSON Web Token, taken apart and not yet believed (RFC 7519, RFC 7515 §3.1).
struct JSONWebToken: Sendable {
    /// What a token is for. One issuer signs both kinds with the same keys, so that neither may pass for the other (RFC 8725 §3.11).
    enum Kind {
        /// Says who calls: an ID token, say. It may leave its `typ` out.
        case credential
        /// Tells of an event (RFC 8417 §2.3). Its `typ` says so.
        case securityEvent

        fileprivate func accepts(_ type: JSONValue?) -> Bool {
            switch self {
            case .credential: type.map { ["jwt", "at+jwt"].contains($0.string?.lowercased()) } ?? true
            case .securityEvent: type?.string?.lowercased() == "secevent+jwt"
            }
        }
    }

    /// Longer than any that is sent in a header, or that tells of an event.
    private static let maximumBytes = 8192
    private static let maximumKeyIDBytes = 256
    private static let maximumDepth = 8

    /// What it says it is signed with.
    let algorithm: SignatureAlgorithm
    /// `kid`: which of the issuer's keys it says it is signed with.
    let keyID: String?
    let claims: JSONObject
    private let signedBytes: [UInt8]
    private let signature: [UInt8]

    /// Whether a text could be a token of this kind: three parts, of which the first begins as every JSON object does.
    static func isLike(_ text: String) -> Bool {
        text.utf8.starts(with: "eyJ".utf8) && text.utf8.count { $0 == UInt8(ascii: ".") } == 2
    }

    /// Takes a token apart; `nil` for one that is none of this kind, or is signed as none is accepted: with `none`, say.
    init?(_ text: String, _ kind: Kind) {
        guard text.utf8.count <= Self.maximumBytes else { return nil }
        let parts = text.utf8.split(separator: UInt8(ascii: "."), omittingEmptySubsequences: false)
        guard parts.count == 3,
            let header = Self.object(parts[0]), let claims = Self.object(parts[1]),
            let signature = Base64URL.decode(parts[2]),
            let name = header["alg"]?.string, let algorithm = SignatureAlgorithm(rawValue: name),
            // Extensions that must be understood, and none is (RFC 7515 §4.1.11).
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

    /// Whether it was signed with a key. The algorithm is the key's.
    func isSigned(with key: VerificationKey) -> Bool {
        algorithm == key.algorithm && key.verifies(signature, of: signedBytes)
    }

    private static func object(_ part: some Collection<UInt8>) -> JSONObject? {
        guard let bytes = Base64URL.decode(part) else { return nil }
        return try? JSONValue(parsing: bytes, maximumDepth: maximumDepth).object
    }
}
