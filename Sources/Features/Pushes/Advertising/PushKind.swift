import JSON
import KakaoAPI

/// The purpose of a push. The law has rules for advertising.
package enum PushKind: String, CaseIterable, Sendable {
    /// Sent within ``AdvertisingHours`` only, with the mark of advertising, to users who have consented.
    case advertising
    /// About a contract, an order or the like: sent at any time.
    case informational
}

extension PushMessage {
    /// The mark with which advertising has to begin (Information and Communications Network Act, enforcement decree,
    /// appendix 6).
    static let advertisingMark = "(광고)"

    /// Whether the message has the mark of advertising in a visible text, for each platform that it addresses.
    ///
    /// The text for APNS is in `message`. An app for Android shows texts of `custom_field` as it likes, so any of them may
    /// have the mark. Kakao gets the members of both versions, whichever the request is of.
    var isMarkedAsAdvertising: Bool {
        guard let object = (try? JSONValue(parsing: Array(text.utf8)))?.object else { return false }
        let visible = [("for_apns", "message")] + PushVersion.allCases.map { ($0.androidMember, "custom_field") }
        return visible.allSatisfy { platform, texts in
            !object.has(platform) || object[platform]?[texts]?.hasText(containing: Self.advertisingMark) == true
        }
    }
}

extension JSONValue {
    /// Returns whether it is or has a text that contains another one.
    fileprivate func hasText(containing part: String) -> Bool {
        switch self {
        case .string(let text): text.contains(part)
        case .array(let elements): elements.contains { $0.hasText(containing: part) }
        case .object(let object): object.members.contains { $0.value.hasText(containing: part) }
        case .number, .bool, .null: false
        }
    }
}
