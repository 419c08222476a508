import Runtime

/// The types of webhooks that an endpoint gets.
package struct WebhookTypes: Sendable, Equatable {
    /// Types, and prefixes that end with `.*`; empty for all types.
    package let patterns: [String]

    /// The types that an endpoint can choose: an operator's test is always sent.
    static let choices = WebhookType.allCases.filter { $0 != .test }

    /// All types, and all prefixes of them.
    static let allPatterns: [String] = choices.reduce(into: []) { patterns, type in
        for dot in type.rawValue.indices.reversed() where type.rawValue[dot] == "." {
            let prefix = "\(type.rawValue[...dot])*"
            if !patterns.contains(prefix) { patterns.append(prefix) }
        }
        patterns.append(type.rawValue)
    }

    /// All types.
    package init() {
        patterns = []
    }

    /// Creates a choice of ``allPatterns``.
    init(known patterns: [String]) {
        self.patterns = patterns
    }

    /// Creates a choice of types. Returns `nil` if one of the patterns matches no type.
    package init?(_ patterns: [String]) {
        guard patterns.allSatisfy(Self.allPatterns.contains) else { return nil }
        self.init(known: patterns)
    }

    /// The names of all of them.
    var names: [String] { Self.choices.filter(contains).map(\.rawValue) }

    func contains(_ type: WebhookType) -> Bool {
        patterns.isEmpty || patterns.contains { Self.matches($0, type) }
    }

    private static func matches(_ pattern: String, _ type: WebhookType) -> Bool {
        pattern.hasSuffix(".*") ? type.rawValue.hasPrefix(pattern.dropLast()) : type.rawValue == pattern
    }
}
