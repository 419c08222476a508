import Crypto
import FoundationEssentials

/// A secret that signs webhooks: `whsec_` and the Base64 of its key (Standard Webhooks, "Signature scheme"). It prints as `***`.
package struct WebhookSecret: Sendable, Equatable, CustomStringConvertible, CustomReflectable {
    private static let prefix = "whsec_"
    /// The lengths that a key may have, in bytes.
    private static let keyLengths = 24...64

    private let secret: Secret
    private let key: [UInt8]

    /// Creates a secret. Returns `nil` unless it has the prefix and a key of 24 to 64 bytes.
    package init?(_ text: String) {
        guard text.hasPrefix(Self.prefix), let key = Data(base64Encoded: String(text.dropFirst(Self.prefix.count))),
            Self.keyLengths.contains(key.count)
        else { return nil }
        secret = Secret(text)
        self.key = Array(key)
    }

    package var description: String { "***" }
    package var customMirror: Mirror { Mirror(self, children: []) }

    package static func == (left: WebhookSecret, right: WebhookSecret) -> Bool { left.secret == right.secret }

    /// Returns the signature of a webhook, with its version.
    func signature(of content: [UInt8]) -> String {
        "v1,\(Data(HMACSHA256.code(of: content, key)).base64EncodedString())"
    }
}
