import CLibssl
import FoundationEssentials
package import JSON
import TestSupport
import Testing

/// A maker of JSON Web Tokens, both valid ones and those of an attacker.
package enum TestSigner {
    /// Returns a token with any header and claims. `sign` is called with the bytes to sign.
    package static func token(_ header: JSONObject, _ claims: JSONObject, _ sign: ([UInt8]) -> [UInt8]) -> String {
        let text = [header, claims].map { base64URL(JSONValue.object($0).bytes()) }.joined(separator: ".")
        return text + "." + base64URL(sign(Array(text.utf8)))
    }

    /// Returns a token that is signed with HS256.
    package static func hs256(
        _ claims: JSONObject,
        secret: [UInt8],
        header: JSONObject = ["alg": "HS256", "typ": "JWT"]
    ) -> String {
        token(header, claims) { bytes in
            var code = [UInt8](repeating: 0, count: 32)
            var length: UInt32 = 0
            HMAC(EVP_sha256(), secret, Int32(secret.count), bytes, bytes.count, &code, &length)
            return code
        }
    }

    /// Returns the header and claims of a token.
    package static func parts(of token: String) throws -> (header: JSONObject, claims: JSONObject) {
        func object(_ part: Substring) throws -> JSONObject {
            var text = String(part).replacing("-", with: "+").replacing("_", with: "/")
            while text.count % 4 != 0 { text += "=" }
            let data = try #require(Data(base64Encoded: text))
            return try #require(try JSONValue(parsing: Array(data)).object)
        }
        let parts = token.split(separator: ".")
        return (try object(parts[0]), try object(parts[1]))
    }

    package static func base64URL(_ bytes: [UInt8]) -> String {
        String(
            Data(bytes).base64EncodedString().compactMap { character -> Character? in
                switch character {
                case "+": "-"
                case "/": "_"
                case "=": nil
                default: character
                }
            }
        )
    }

    /// The current time in seconds since 1970.
    package static var now: Int64 { Int64(Date().timeIntervalSince1970) }
}

/// A key of the curve P-256, which signs with ES256.
package final class TestP256Key {
    private let key: OpaquePointer

    package init() throws {
        guard let key = clibssl_make_p256_key() else { throw NeverHappened() }
        self.key = key
    }

    deinit { EVP_PKEY_free(key) }

    /// Returns a key set that contains only this key.
    package func jwks(keyID: String) -> [UInt8] {
        let item: JSONValue = [
            "kty": "EC", "crv": "P-256", "alg": "ES256", "use": "sig", "kid": .string(keyID),
            "x": .string(TestSigner.base64URL(number("qx"))), "y": .string(TestSigner.base64URL(number("qy"))),
        ]
        return JSONValue.object(["keys": [item]]).bytes()
    }

    /// Returns a signature as its two numbers of 32 octets each.
    package func sign(_ bytes: [UInt8]) -> [UInt8] {
        let context = EVP_MD_CTX_new()
        defer { EVP_MD_CTX_free(context) }
        var length = 128
        var signature = [UInt8](repeating: 0, count: length)
        _ = EVP_DigestSignInit(context, nil, EVP_sha256(), nil, key)
        _ = EVP_DigestSign(context, &signature, &length, bytes, bytes.count)
        // The signature is a SEQUENCE of INTEGER r and INTEGER s, each shorter than 128 octets.
        let first = Int(signature[3])
        let second = Int(signature[5 + first])
        return Self.fixed(signature[4..<4 + first]) + Self.fixed(signature[6 + first..<6 + first + second])
    }

    private static func fixed(_ number: ArraySlice<UInt8>) -> [UInt8] {
        let magnitude = Array(number.drop { $0 == 0 })
        return [UInt8](repeating: 0, count: 32 - magnitude.count) + magnitude
    }

    private func number(_ name: String) -> [UInt8] {
        var number: OpaquePointer?
        guard EVP_PKEY_get_bn_param(key, name, &number) == 1 else { return [] }
        defer { BN_free(number) }
        var bytes = [UInt8](repeating: 0, count: 32)
        BN_bn2binpad(number, &bytes, 32)
        return bytes
    }
}
