import CLibssl
import Crypto
import HTTPServer
import HTTPTypes
import JSON
import Locking

/// The keys that sign ID tokens and account events, the newest last. The two newest are published, as at Kakao.
final class SigningKeys: Sendable {
    private static let published = 2

    private let keys = Locked<[SigningKey]>([])

    /// Returns the key that signs new tokens. The first call generates it.
    func current() async throws -> SigningKey {
        if let key = keys.withLock({ $0.last }) { return key }
        let made = try await SigningKey.make()
        return keys.withLock { keys in
            // A concurrent call may have stored a key in the meantime.
            if let key = keys.last { return key }
            keys.append(made)
            return made
        }
    }

    /// Replaces the key that signs new tokens. Its predecessor stays published, older keys do not.
    func rotate() async throws {
        _ = try await current()
        let made = try await SigningKey.make()
        keys.withLock { keys in
            keys.append(made)
            keys.removeFirst(max(0, keys.count - Self.published))
        }
    }

    /// Returns the published key set, `{"keys":[…]}`.
    func publishedKeys() async throws -> JSONValue {
        _ = try await current()
        let keys = keys.withLock { $0 }.map { key -> JSONValue in
            [
                "kid": .string(key.id), "kty": "RSA", "alg": "RS256", "use": "sig",
                "n": .string(Base64URL.encode(key.number("n"))), "e": .string(Base64URL.encode(key.number("e"))),
            ]
        }
        return ["keys": .array(keys)]
    }
}

/// An RSA key of 2048 bits.
final class SigningKey: @unchecked Sendable {
    // Immutable, and OpenSSL only reads it to sign, so that all threads may share it.
    private let key: OpaquePointer
    /// `kid`.
    let id: String

    private init(_ key: OpaquePointer, id: String) {
        self.key = key
        self.id = id
    }

    deinit { EVP_PKEY_free(key) }

    /// Generates a key on the blocking queue, because generation is slow and must not block an event loop.
    static func make() async throws -> SigningKey {
        let key = await offLoop {
            clibssl_make_rsa_2048_key().map { SigningKey($0, id: RandomKey.hexadecimal(words: 2)) }
        }
        guard let key else { throw Problem(.internalServerError, "No RSA key could be generated.") }
        return key
    }

    /// Returns a JSON Web Token with these claims, signed with RS256.
    func sign(_ claims: JSONObject, type: String, namesKey: Bool) -> String {
        var header: JSONObject = ["typ": .string(type), "alg": "RS256"]
        if namesKey { header["kid"] = .string(id) }
        let text = [header, claims].map { Base64URL.encode(JSONValue.object($0).bytes()) }.joined(separator: ".")
        return text + "." + signature(of: text)
    }

    /// Returns the signature of a text, encoded as the last part of a token.
    func signature(of text: String) -> String {
        Base64URL.encode(signature(of: Array(text.utf8)))
    }

    private func signature(of message: [UInt8]) -> [UInt8] {
        guard let context = EVP_MD_CTX_new() else { return [] }
        defer { EVP_MD_CTX_free(context) }
        var length = 0
        guard EVP_DigestSignInit(context, nil, EVP_sha256(), nil, key) == 1,
            EVP_DigestSign(context, nil, &length, message, message.count) == 1
        else { return [] }
        var signature = [UInt8](repeating: 0, count: length)
        guard EVP_DigestSign(context, &signature, &length, message, message.count) == 1 else { return [] }
        return Array(signature.prefix(length))
    }

    /// Returns a number of the public key as big-endian bytes: the modulus `n` or the exponent `e`.
    func number(_ name: String) -> [UInt8] {
        var number: OpaquePointer?
        guard EVP_PKEY_get_bn_param(key, name, &number) == 1 else { return [] }
        defer { BN_free(number) }
        var bytes = [UInt8](repeating: 0, count: Int(BN_num_bits(number) + 7) / 8)
        _ = BN_bn2bin(number, &bytes)
        return bytes
    }
}
