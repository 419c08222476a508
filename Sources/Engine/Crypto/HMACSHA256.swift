import CLibssl

/// Message authentication codes by HMAC with SHA-256 (RFC 2104).
package enum HMACSHA256 {
    /// Returns the 32 bytes of the code of `message` under `key`.
    package static func code(of message: [UInt8], _ key: Secret) -> [UInt8] {
        code(of: message, Array(key.revealed.utf8))
    }

    /// Returns the 32 bytes of the code of `message` under the bytes of a key.
    package static func code(of message: [UInt8], _ key: [UInt8]) -> [UInt8] {
        [UInt8](unsafeUninitializedCapacity: Int(SHA256_DIGEST_LENGTH)) { code, count in
            var length: UInt32 = 0
            HMAC(EVP_sha256(), key, Int32(key.count), message, message.count, code.baseAddress, &length)
            count = Int(length)
        }
    }

    /// Returns whether `code` is the code of `message`, in a time that does not depend on where the two differ.
    ///
    /// - Parameter length: The number of bytes to which codes are truncated (RFC 2104 §5): 16 to 32.
    package static func isValid(_ code: [UInt8], of message: [UInt8], _ key: Secret, length: Int = 32) -> Bool {
        code.count == length && CRYPTO_memcmp(Self.code(of: message, key), code, length) == 0
    }
}
