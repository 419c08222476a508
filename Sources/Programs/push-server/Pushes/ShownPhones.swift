import JSON

/// What phones show of a message, parsed from the server's JSON. Pure.
enum ShownPhones {
    /// Returns the rows that show each platform's notification: its title, its text, and where its links lead. If no text is known,
    /// they have the beginning of the message itself.
    ///
    /// - Parameter json: A push with its message, a dry run or a preview.
    static func rows(_ json: JSONValue) -> [[String]] {
        let phones = json["phones"]?.array ?? []
        let isKnown = phones.contains { $0["title"]?.isNull == false || $0["text"]?.isNull == false }
        let message = isKnown ? [] : json.printableRows(["first_words"])
        let rows = phones.flatMap { phone in
            let texts = Self.texts.flatMap { lines(of: phone[$0]) }
            let links = (phone["links"]?.array ?? []).map { "\($0.printable("url")) (\($0.printable("path")))" }
            return named(name(of: phone), [presenter(of: phone)].compactMap(\.self) + texts + links)
        }
        let isCut = phones.contains { phone in Self.texts.contains { phone[$0]?["visible"]?.string != nil } }
        let legend = [["", "(what is in […] can be read only after the notification is opened)"]]
        return message + rows + (isCut ? legend : [])
    }

    /// Returns a row for each warning.
    ///
    /// - Parameter json: A push, a dry run or a preview.
    static func warnings(_ json: JSONValue) -> [[String]] {
        (json["warnings"]?.array ?? []).map {
            ["warning", "\($0.printable("path", orElse: "message")): \($0.printable("message"))"]
        }
    }

    private static func name(of phone: JSONValue) -> String {
        switch phone["platform"]?.string {
        case "apns": "iPhone"
        case "fcm": "Android"
        default: phone.printable("platform")
        }
    }

    /// Returns what has to be known beside the texts; `nil` if the phone shows them as they are.
    private static func presenter(of phone: JSONValue) -> String? {
        switch phone["shown_by"]?.string {
        case nil: "(nothing is shown)"
        case "app": "(drawn by the app, from custom_field)"
        default: nil
        }
    }

    private static let texts = ["title", "subtitle", "text"]

    /// Returns the lines of a text. What is visible only after the notification is opened stands in brackets.
    private static func lines(of text: JSONValue?) -> [String] {
        guard let text, !text.isNull else { return [] }
        guard let words = text["text"]?.string else { return ["(translated by the app: \(text.printable("key")))"] }
        let visible = text["visible"]?.string ?? words
        let hidden = words.unicodeScalars.dropFirst(visible.unicodeScalars.count)
        let whole = hidden.isEmpty ? visible : "\(visible)[\(String(String.UnicodeScalarView(hidden)))]"
        return whole.split(whereSeparator: \.isNewline).map { Text.printable(String($0)) }
    }

    /// Returns rows of which only the first has a name.
    private static func named(_ name: String, _ lines: [String]) -> [[String]] {
        lines.enumerated().map { [$0.offset == 0 ? name : "", $0.element] }
    }
}
