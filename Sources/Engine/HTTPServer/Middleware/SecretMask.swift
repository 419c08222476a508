import Glibc
import Locking
import Net

/// Replaces secrets with `***` in logged or displayed text, however a request encodes them.
package final class SecretMask: Sendable {
    /// The maximum number of percent-decoding rounds. None of the known clients encodes a path twice.
    private static let maximumRounds = 4
    private static let mask = "***"
    /// The length from which a segment of a path that leads nowhere may be a mistyped or misplaced secret.
    private static let shortestUnknown = 24
    /// The number of bytes that are shown of such a path. Masking costs more the longer it is, and anyone can send one.
    private static let shownOfUnknown = 400

    private let secrets: Locked<[String]>
    /// The paths in lower case, without repeated slashes.
    private let prefixes: [String]
    /// The texts with which secrets begin whose values are unknown.
    private let beginnings: [String]

    /// - Parameters:
    ///   - secrets: The texts to mask. They must be long enough not to occur elsewhere.
    ///   - prefixes: Path prefixes after which everything is masked, because a mistyped secret reveals most of the real
    ///     one.
    ///   - beginnings: Texts with which secrets begin: every segment of a path that contains one is masked.
    package init(secrets: [String] = [], prefixes: [String] = [], beginnings: [String] = []) {
        self.secrets = Locked(secrets.filter { !$0.isEmpty })
        self.prefixes = prefixes
        self.beginnings = beginnings
    }

    /// Adds a text to mask. The earlier ones remain, since requests with them may still arrive.
    package func add(_ secret: String) {
        secrets.withLock { secrets in
            if !secret.isEmpty, !secrets.contains(secret) { secrets.append(secret) }
        }
    }

    /// Returns the text with the secrets masked.
    package func masked(_ text: String) -> String {
        secrets.withLock { $0 }.reduce(text) { text, secret in
            Self.contains(text, secret) ? text.replacing(secret, with: Self.mask) : text
        }
    }

    /// Returns a request's path with the secrets masked. This includes percent-encoded secrets, and paths that match a
    /// prefix in another case or with repeated slashes.
    package func masked(path: String) -> String {
        let plain = Self.plain(path)
        for prefix in prefixes where plain.utf8.count >= prefix.utf8.count {
            // Only ASCII letters, because prefixes have no others.
            if zip(plain.utf8, prefix.utf8).allSatisfy({ Self.lowercased($0) == Self.lowercased($1) }) {
                return prefix + Self.mask
            }
        }
        var shown = masked(path)
        if beginnings.contains(where: { Self.contains(shown, $0) }) {
            shown = Self.masking(shown) { segment in beginnings.contains { Self.contains(String(segment), $0) } }
        }
        // A path with an encoded secret is masked completely, so that a log line contains no decoded octets.
        let rest = shown == path ? plain : Self.plain(shown)
        return (secrets.withLock { $0 } + beginnings).contains { Self.contains(rest, $0) } ? Self.mask : shown
    }

    /// Returns the path of a request that no route matches, with the secrets masked, and every long segment: someone may have
    /// pasted a key, even an incomplete one, in the wrong place.
    package func masked(unknownPath path: String) -> String {
        guard path.utf8.count > Self.shownOfUnknown else {
            return Self.masking(masked(path: path)) { $0.utf8.count >= Self.shortestUnknown }
        }
        // The segment that is cut may be the beginning of a secret.
        let beginning = path.utf8.prefix(Self.shownOfUnknown)
        let whole = beginning.lastIndex(of: UInt8(ascii: "/")).map { beginning[..<$0] } ?? beginning.prefix(0)
        return "\(masked(unknownPath: String(decoding: whole, as: UTF8.self)))/\(Self.mask)"
    }

    /// Returns a path whose segments are masked if `isSecret` says so.
    private static func masking(_ path: String, _ isSecret: (Substring) -> Bool) -> String {
        path.split(separator: "/", omittingEmptySubsequences: false)
            .map { isSecret($0) ? mask : String($0) }
            .joined(separator: "/")
    }

    /// Returns a path without percent-encoding and repeated slashes.
    private static func plain(_ path: String) -> String {
        var bytes = Array(path.utf8)
        for _ in 1...Self.maximumRounds where bytes.contains(UInt8(ascii: "%")) { bytes = Self.decoded(bytes) }
        return String(decoding: withSingleSlashes(bytes), as: UTF8.self)
    }

    private static func contains(_ text: String, _ secret: String) -> Bool {
        guard !secret.isEmpty, text.utf8.count >= secret.utf8.count else { return false }
        var (text, secret) = (text, secret)
        return text.withUTF8 { text in
            secret.withUTF8 { secret in
                guard var start = text.baseAddress, let other = secret.baseAddress else { return false }
                let end = start + (text.count - secret.count + 1)
                while let found = memchr(start, Int32(other[0]), end - start) {
                    if memcmp(found, other, secret.count) == 0 { return true }
                    start = UnsafePointer(found.assumingMemoryBound(to: UInt8.self)) + 1
                }
                return false
            }
        }
    }

    /// Removes one layer of percent-encoding. Invalid sequences are kept, because nothing is rejected here.
    private static func decoded(_ bytes: [UInt8]) -> [UInt8] {
        var decoded: [UInt8] = []
        decoded.reserveCapacity(bytes.count)
        var index = 0
        while index < bytes.count {
            if bytes[index] == UInt8(ascii: "%"), index + 2 < bytes.count, let high = Octets.hexDigit(bytes[index + 1]),
                let low = Octets.hexDigit(bytes[index + 2])
            {
                decoded.append(UInt8(high << 4 | low))
                index += 3
            } else {
                decoded.append(bytes[index])
                index += 1
            }
        }
        return decoded
    }

    private static func withSingleSlashes(_ bytes: [UInt8]) -> [UInt8] {
        let slash = UInt8(ascii: "/")
        var plain: [UInt8] = []
        plain.reserveCapacity(bytes.count)
        for byte in bytes where byte != slash || plain.last != slash { plain.append(byte) }
        return plain
    }

    private static func lowercased(_ byte: UInt8) -> UInt8 {
        (UInt8(ascii: "A")...UInt8(ascii: "Z")).contains(byte) ? byte | 0x20 : byte
    }
}
