import Schemas

/// A text of a notification: its title, its subtitle or its text.
struct PhoneText: Sendable, Equatable {
    enum Content: Sendable, Equatable {
        case text(String)
        /// The key by which the app looks the text up in its own translations, so that only the phone knows it.
        case key(String)
    }

    /// The place in the message: `for_fcm.notification.title`.
    let path: String
    let content: Content
    /// The beginning that is visible at first; `nil` if all of the text is.
    var visible: String?

    /// `nil` if only the phone knows it.
    var text: String? {
        guard case .text(let text) = content else { return nil }
        return text
    }

    var key: String? {
        guard case .key(let key) = content else { return nil }
        return key
    }

    init(_ path: String, _ content: Content) {
        self.path = path
        self.content = content
    }

    /// Finds out what is visible in so much room.
    mutating func fit(into room: Room) { visible = text.flatMap(room.beginning) }

    static let shape = Shape<PhoneText>(
        "PhoneText",
        [
            .member("path", .text, "Its place in the message.", \.path),
            .nullable("text", .text, "The text; null if the app looks it up by `key`.", \.text),
            .nullable("key", .text, "The key by which the app looks the text up.", \.key),
            .nullable(
                "visible",
                .text,
                "What a phone shows of it before it is opened, if it is cut: an approximation, since it depends on the phone.",
                \.visible
            ),
        ]
    )
}

extension PhoneText {
    /// The room that phones have for a text.
    ///
    /// The sizes are approximations for letters of usual width, as vendors publish them: on the lock screen of an iPhone a title of
    /// 50 and four lines of 178, on Android a title of 65 and 240.
    struct Room {
        /// The number of columns. Letters of East Asia and emoji take two.
        let columns: Int
        var lines = Int.max

        static let titleOnIPhone = Room(columns: 50)
        static let textOnIPhone = Room(columns: 178, lines: 4)
        static let titleOnAndroid = Room(columns: 65)
        static let textOnAndroid = Room(columns: 240)

        /// Returns the beginning that fits; `nil` if all of the text does.
        func beginning(of text: String) -> String? {
            var (columns, lines) = (self.columns, self.lines)
            let scalars = text.unicodeScalars
            for index in scalars.indices {
                columns -= scalars[index].columns
                if scalars[index] == "\n" { lines -= 1 }
                if columns < 0 || lines <= 0 { return String(scalars[..<index]) }
            }
            return nil
        }
    }
}

extension Unicode.Scalar {
    /// The number of columns that it takes beside usual letters (Unicode Standard Annex #11).
    fileprivate var columns: Int {
        switch value {
        case 0..<0x20, 0x300...0x36F, 0x200B...0x200F, 0xFE00...0xFE0F: 0
        case 0x1100...0x115F, 0x2E80...0xA4CF, 0xAC00...0xD7A3, 0xF900...0xFAFF, 0xFE30...0xFE6F, 0xFF00...0xFF60,
            0xFFE0...0xFFE6, 0x1F300...0x1FAFF, 0x20000...0x3FFFD:
            2
        default: 1
        }
    }
}
