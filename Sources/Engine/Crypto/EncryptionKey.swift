import CLibssl

/// A key of AES-256-GCM (NIST SP 800-38D), which encrypts and authenticates. It prints as `***`.
///
/// Each message has a random nonce of 96 bits, so that a key may encrypt at most 2^32 messages (§8.3). Use
/// ``derived(for:)`` for a key of each object.
package struct EncryptionKey: Sendable, Equatable, CustomStringConvertible, CustomReflectable {
    /// The length of a key in bytes.
    package static let length = 32
    private static let nonceLength = 12
    private static let tagLength = 16

    private let bytes: [UInt8]
    /// An identifier of the key, which does not reveal it: 16 hexadecimal digits.
    package let id: String

    /// Creates a key. Returns `nil` unless it has ``length`` bytes.
    package init?(_ bytes: [UInt8]) {
        guard bytes.count == Self.length else { return nil }
        self.bytes = bytes
        id = SHA256Digest.of(Array("key id".utf8) + bytes).prefix(8).hexadecimal
    }

    package var description: String { "***" }
    package var customMirror: Mirror { Mirror(self, children: []) }

    /// Returns a key of its own for a purpose or an object: HMAC-SHA256 of the context under this key.
    package func derived(for context: [UInt8]) -> EncryptionKey {
        guard let key = EncryptionKey(HMACSHA256.code(of: context, bytes)) else {
            preconditionFailure("HMAC-SHA256 did not return \(Self.length) bytes")
        }
        return key
    }

    /// Encrypts a message. Returns the nonce, the ciphertext and the tag, one after the other.
    ///
    /// - Parameter context: Data that is not encrypted but authenticated: ``open(_:authenticating:)`` needs the same.
    package func seal(_ message: [UInt8], authenticating context: [UInt8]) -> [UInt8] {
        let nonce = RandomKey.bytes(Self.nonceLength)
        var ciphertext = [UInt8](repeating: 0, count: message.count)
        var tag = [UInt8](repeating: 0, count: Self.tagLength)
        var (length, end): (Int32, Int32) = (0, 0)
        let cipher = EVP_CIPHER_CTX_new()
        defer { EVP_CIPHER_CTX_free(cipher) }
        guard EVP_EncryptInit_ex(cipher, EVP_aes_256_gcm(), nil, bytes, nonce) == 1,
            EVP_EncryptUpdate(cipher, nil, &length, context, Int32(context.count)) == 1,
            EVP_EncryptUpdate(cipher, &ciphertext, &length, message, Int32(message.count)) == 1,
            EVP_EncryptFinal_ex(cipher, nil, &end) == 1,
            EVP_CIPHER_CTX_ctrl(cipher, EVP_CTRL_GCM_GET_TAG, Int32(tag.count), &tag) == 1
        else {
            // Only without memory. A message must never be stored in the clear.
            preconditionFailure("the encryption with AES-256-GCM failed")
        }
        return nonce + ciphertext + tag
    }

    /// Decrypts a message. Returns `nil` if it was encrypted under another key or with another context, or altered.
    package func open(_ sealed: [UInt8], authenticating context: [UInt8]) -> [UInt8]? {
        guard sealed.count >= Self.nonceLength + Self.tagLength, let cipher = EVP_CIPHER_CTX_new() else { return nil }
        defer { EVP_CIPHER_CTX_free(cipher) }
        let nonce = Array(sealed.prefix(Self.nonceLength))
        let ciphertext = Array(sealed.dropFirst(Self.nonceLength).dropLast(Self.tagLength))
        var tag = Array(sealed.suffix(Self.tagLength))
        var message = [UInt8](repeating: 0, count: ciphertext.count)
        var (length, end): (Int32, Int32) = (0, 0)
        guard EVP_DecryptInit_ex(cipher, EVP_aes_256_gcm(), nil, bytes, nonce) == 1,
            EVP_DecryptUpdate(cipher, nil, &length, context, Int32(context.count)) == 1,
            EVP_DecryptUpdate(cipher, &message, &length, ciphertext, Int32(ciphertext.count)) == 1,
            EVP_CIPHER_CTX_ctrl(cipher, EVP_CTRL_GCM_SET_TAG, Int32(tag.count), &tag) == 1,
            EVP_DecryptFinal_ex(cipher, nil, &end) == 1
        else { return nil }
        return message
    }
}
