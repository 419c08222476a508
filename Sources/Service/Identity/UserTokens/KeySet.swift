package import Crypto
import JSON

/// An issuer's published keys by their `kid` (RFC 7517 §5).
package struct KeySet: Sendable {
    private static let maximumKeys = 64

    private var keys: [String: VerificationKey] = [:]

    /// Parses a key set. Returns `nil` for invalid input. Keys that are unsupported or without a `kid` are skipped.
    package init?(json: [UInt8]) {
        guard let list = try? JSONValue(parsing: json, maximumDepth: 8)["keys"]?.array else { return nil }
        for item in list.prefix(Self.maximumKeys) {
            guard let keyID = item["kid"]?.string, let key = Self.key(item) else { continue }
            keys[keyID] = key
        }
    }

    package var isEmpty: Bool { keys.isEmpty }

    /// Returns the number of keys for an algorithm.
    package func count(of algorithm: SignatureAlgorithm) -> Int {
        keys.values.count { $0.algorithm == algorithm }
    }

    /// Returns the key with a `kid`.
    func key(_ keyID: String) -> VerificationKey? {
        keys[keyID]
    }

    private static func key(_ item: JSONValue) -> VerificationKey? {
        guard item["use"].map({ $0 == "sig" }) ?? true else { return nil }
        func number(_ name: String) -> [UInt8]? { item[name]?.string.flatMap { Base64URL.decode($0.utf8) } }
        let key: VerificationKey?
        switch item["kty"]?.string {
        case "RSA":
            guard let modulus = number("n"), let exponent = number("e") else { return nil }
            key = VerificationKey(modulus: modulus, exponent: exponent)
        case "EC":
            guard item["crv"] == "P-256", let x = number("x"), let y = number("y") else { return nil }
            key = VerificationKey(x: x, y: y)
        default:
            key = nil
        }
        guard let key, item["alg"].map({ $0.string == key.algorithm.rawValue }) ?? true else { return nil }
        return key
    }
}
