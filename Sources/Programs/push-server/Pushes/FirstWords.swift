import JSON

/// The beginning of the text that a push shows on a phone. Pure.
enum FirstWords {
    /// The length in characters. A question is read at a glance.
    private static let maximum = 80

    /// Returns the first visible text of Kakao's `push_message`; `nil` if there is none.
    static func of(_ message: JSONValue) -> String? {
        var texts = [message["for_apns"]?["message"]]
        for android in ["for_fcm", "for_gcm"] {
            texts.append(message[android]?["notification"])
            texts.append(message[android]?["custom_field"])
        }
        texts.append(message["for_apns"]?["custom_field"])
        let words = texts.lazy.compactMap { $0.flatMap(firstText) }.first
        return words.map { text in
            let text = Text.printable(text.split(whereSeparator: \.isWhitespace).joined(separator: " "))
            return text.count > maximum ? "\(text.prefix(maximum))…" : text
        }
    }

    /// Returns the first text of a value that is not blank: its title, if it has one.
    private static func firstText(_ value: JSONValue) -> String? {
        switch value {
        case .string(let text): return text.allSatisfy(\.isWhitespace) ? nil : text
        case .array(let elements): return elements.lazy.compactMap(firstText).first
        case .object(let object):
            let named = ["title", "body", "text", "message", "alert"].lazy.compactMap { object[$0].flatMap(firstText) }
            return named.first ?? object.members.lazy.compactMap { firstText($0.value) }.first
        case .number, .bool, .null: return nil
        }
    }
}
