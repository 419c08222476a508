/// A fault of a template.
public struct Finding: Hashable, Sendable {
    /// Kakao's reaction to a fault.
    public enum Effect: String, CaseIterable, Sendable {
        /// Kakao rejects the template.
        case rejected
        /// KakaoTalk shows the beginning only.
        case truncated
        /// Kakao leaves the part out.
        case dropped
        /// Kakao's documents do not say, or sources contradict each other.
        case uncertain
    }

    /// Where the fault is: `$.buttons[0].link.web_url`; `$` for the whole template.
    public let path: String
    /// The id of the rule, which never changes: `text-too-long`.
    public var rule: String { kind.rawValue }
    private let kind: Rule
    /// Kakao's reaction to the fault.
    public let effect: Effect
    /// The limit that is exceeded, such as 200 characters; `nil` for a rule without one.
    public let limit: Int?
    /// The value, if it is short, or its measure: `214`.
    public let value: String?
    /// The problem and its remedy.
    public let message: String

    /// Whether the rest of the template, or a part of it, was not checked.
    public var endsCheck: Bool { kind == .duplicateMember || kind == .notChecked }

    /// Whether the text cannot be read as a template, or not as Kakao reads it.
    var preventsReading: Bool { kind == .syntax || endsCheck }

    init(
        _ path: String,
        _ rule: Rule,
        _ effect: Effect,
        limit: Int? = nil,
        value: String? = nil,
        _ message: String
    ) {
        self.path = path
        kind = rule
        self.effect = effect
        self.limit = limit
        self.value = value
        self.message = message
    }

    /// Returns the finding for the size of a message with everything that travels with it; `nil` for a small one.
    ///
    /// - Parameter bytes: The size, or the part of it that is known.
    package static func messageSize(_ bytes: Int) -> Finding? {
        guard bytes >= Limits.largeMessageBytes else { return nil }
        let isRejected = bytes >= Limits.messageBytes
        return Finding(
            "$",
            .messageSize,
            isRejected ? .rejected : .uncertain,
            limit: Limits.messageBytes,
            value: String(bytes),
            isRejected
                ? "The message has \(bytes) bytes with its arguments. Kakao's SDKs refuse \(Limits.messageBytes) and more. Shorten texts and arguments."
                : "The message has \(bytes) bytes with its arguments, close to the \(Limits.messageBytes) that Kakao's SDKs refuse."
        )
    }

    /// Returns the finding for the size of Kakao's callback; `nil` if every server accepts it.
    ///
    /// - Parameter bytes: The size of its query, if Kakao calls by GET.
    package static func callbackSize(_ bytes: Int) -> Finding? {
        guard bytes > Limits.callbackBytes else { return nil }
        return Finding(
            "$",
            .callbackSize,
            .uncertain,
            limit: Limits.callbackBytes,
            value: String(bytes),
            "Kakao's callback would have a query of \(bytes) bytes, and would be lost: servers and proxies accept about 8,000. Shorten args, or choose POST for the callback in Kakao's console."
        )
    }

    /// The rules of the linter by their ids.
    enum Rule: String, CaseIterable {
        // The text and its shape.
        case syntax
        case duplicateMember = "duplicate-member"
        case notChecked = "not-checked"
        case wrongType = "wrong-type"
        case unknownObjectType = "unknown-object-type"
        case missingMember = "missing-member"
        case unknownMember = "unknown-member"
        case camelCase = "camel-case"
        // Numbers and lengths.
        case textTooLong = "text-too-long"
        case emptyText = "empty-text"
        case tooFew = "too-few"
        case tooMany = "too-many"
        case outOfRange = "out-of-range"
        case unknownValue = "unknown-value"
        // Parts that depend on each other.
        case emptyContent = "empty-content"
        case emptyLink = "empty-link"
        case incompleteItem = "incomplete-item"
        case twoDiscounts = "two-discounts"
        case discountWithoutPrice = "discount-without-price"
        // Addresses.
        case invalidURL = "invalid-url"
        case localURL = "local-url"
        case unregisteredDomain = "unregistered-domain"
        case insecureImage = "insecure-image"
        case smallImage = "small-image"
        case executionParams = "execution-params"
        case unusualCharacters = "unusual-characters"
        // The message as a whole.
        case messageSize = "message-size"
        case callbackSize = "callback-size"
    }
}
