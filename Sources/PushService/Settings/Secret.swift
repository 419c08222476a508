internal import CLibssl

/// A secret text, which prints as `***` and is compared in constant time.
package struct Secret: Sendable, CustomStringConvertible, CustomDebugStringConvertible, CustomReflectable {
    /// The text itself, for a request that has to contain it.
    package let revealed: String
    private let digest: [UInt8]

    package init(_ text: String) {
        revealed = text
        digest = SHA256Digest.of(text)
    }

    package var description: String { "***" }
    package var debugDescription: String { "***" }
    package var customMirror: Mirror { Mirror(self, children: []) }

    /// Returns whether `other` is the same text, in a time that does not depend on where the two differ.
    package func matches(_ other: String) -> Bool {
        matches(digest: SHA256Digest.of(other))
    }

    func matches(digest other: [UInt8]) -> Bool {
        digest.count == other.count && CRYPTO_memcmp(digest, other, digest.count) == 0
    }
}

/// SHA-256 as OpenSSL computes it.
enum SHA256Digest {
    /// The algorithm, looked up once because a look-up takes longer than the digest of a key.
    ///
    /// It is safe to share: OpenSSL counts its references with atomics, and it is never changed.
    private nonisolated(unsafe) static let algorithm = EVP_MD_fetch(nil, "SHA256", nil)

    /// Returns the 32 bytes of the digest of `text` in UTF-8.
    static func of(_ text: String) -> [UInt8] {
        of(Array(text.utf8))
    }

    /// Returns the 32 bytes of the digest of `bytes`.
    static func of(_ bytes: [UInt8]) -> [UInt8] {
        [UInt8](unsafeUninitializedCapacity: Int(SHA256_DIGEST_LENGTH)) { digest, count in
            let isDone = EVP_Digest(bytes, bytes.count, digest.baseAddress, nil, algorithm, nil)
            precondition(isDone == 1, "OpenSSL has SHA-256")
            count = Int(SHA256_DIGEST_LENGTH)
        }
    }
}
