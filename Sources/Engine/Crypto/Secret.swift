import CLibssl

/// A secret text, which prints as `***` and is compared in constant time.
package struct Secret: Sendable, Equatable, CustomStringConvertible, CustomDebugStringConvertible, CustomReflectable {
    /// The text itself, for a request that has to contain it.
    package let revealed: String
    /// The SHA-256 of the text.
    package let sha256: [UInt8]

    package init(_ text: String) {
        revealed = text
        sha256 = SHA256Digest.of(text)
    }

    package var description: String { "***" }
    package var debugDescription: String { "***" }
    package var customMirror: Mirror { Mirror(self, children: []) }

    package static func == (left: Secret, right: Secret) -> Bool { left.matches(digest: right.sha256) }

    /// Returns whether `other` is the same text, in a time that does not depend on where the two differ.
    package func matches(_ other: String) -> Bool {
        matches(digest: SHA256Digest.of(other))
    }

    /// Returns whether the text has this SHA-256 digest, in a time that does not depend on where the digests differ.
    package func matches(digest other: [UInt8]) -> Bool {
        sha256.count == other.count && CRYPTO_memcmp(sha256, other, sha256.count) == 0
    }
}
