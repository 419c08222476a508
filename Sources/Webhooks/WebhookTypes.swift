internal import ServiceKit

/// The types of webhooks that the endpoint gets.
package struct WebhookTypes: Sendable, Equatable {
    /// Types, and prefixes that end with `.*`; empty for all types.
    package let patterns: [String]

    /// The types that an endpoint can choose: an operator's test is always sent.
    static let choices = WebhookType.allCases.filter { $0 != .test }

    /// All types.
    package init() {
        patterns = []
    }

    /// Creates a choice of types. Returns `nil` if one of the patterns matches no type.
    package init?(_ patterns: [String]) {
        guard patterns.allSatisfy({ pattern in Self.choices.contains { Self.matches(pattern, $0) } }) else {
            return nil
        }
        self.patterns = patterns
    }

    func contains(_ type: WebhookType) -> Bool {
        patterns.isEmpty || patterns.contains { Self.matches($0, type) }
    }

    private static func matches(_ pattern: String, _ type: WebhookType) -> Bool {
        pattern.hasSuffix(".*") ? type.rawValue.hasPrefix(pattern.dropLast()) : type.rawValue == pattern
    }
}
