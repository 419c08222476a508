import CLibssl

/// SHA-256 as OpenSSL computes it.
package enum SHA256Digest {
    /// The algorithm, looked up once because a look-up takes longer than the digest of a key.
    ///
    /// The process owns it until it ends. It is safe to share: OpenSSL counts its references with atomics, and it is never
    /// changed.
    private nonisolated(unsafe) static let algorithm = EVP_MD_fetch(nil, "SHA256", nil)

    /// Returns the 32 bytes of the digest of `text` in UTF-8.
    package static func of(_ text: String) -> [UInt8] {
        of(Array(text.utf8))
    }

    /// Returns the 32 bytes of the digest of `bytes`.
    package static func of(_ bytes: [UInt8]) -> [UInt8] {
        [UInt8](unsafeUninitializedCapacity: Int(SHA256_DIGEST_LENGTH)) { digest, count in
            let isDone = EVP_Digest(bytes, bytes.count, digest.baseAddress, nil, algorithm, nil)
            precondition(isDone == 1, "SHA-256 failed")
            count = Int(SHA256_DIGEST_LENGTH)
        }
    }
}
