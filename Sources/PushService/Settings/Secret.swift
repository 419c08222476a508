internal import CLibssl

/// A text that must not be seen: it prints as `***`, and is compared without telling how much of it was right.
package struct Secret: Sendable, CustomStringConvertible, CustomDebugStringConvertible, CustomReflectable {
    /// The text itself, for whoever has to send it.
    package let revealed: String
    private let digest: [UInt8]

    package init(_ text: String) {
        revealed = text
        digest = SHA256Digest.of(text)
    }

    package var description: String { "***" }
    package var debugDescription: String { "***" }
    package var customMirror: Mirror { Mirror(self, children: []) }

    /// Whether `other` is the same text, found in a time that does not depend on where they differ.
    package func matches(_ other: String) -> Bool {
        matches(digest: SHA256Digest.of(other))
    }

    func matches(digest other: [UInt8]) -> Bool {
        digest.count == other.count && CRYPTO_memcmp(digest, other, digest.count) == 0
    }
}

/// SHA-256 as OpenSSL computes it.
enum SHA256Digest {
    /// Looked up once: a look-up takes longer than the digest of a key. OpenSSL counts its references with atomics, and nobody changes it.
    private nonisolated(unsafe) static let algorithm = EVP_MD_fetch(nil, "SHA256", nil)

    /// The 32 bytes of the digest of `text` as UTF-8.
    static func of(_ text: String) -> [UInt8] {
        of(Array(text.utf8))
    }

    /// The 32 bytes of the digest of `bytes`.
    static func of(_ bytes: [UInt8]) -> [UInt8] {
        [UInt8](unsafeUninitializedCapacity: Int(SHA256_DIGEST_LENGTH)) { digest, count in
            let isDone = EVP_Digest(bytes, bytes.count, digest.baseAddress, nil, algorithm, nil)
            precondition(isDone == 1, "OpenSSL has SHA-256")
            count = Int(SHA256_DIGEST_LENGTH)
        }
    }
}
