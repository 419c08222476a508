import JSON

/// Formatting of text for a terminal. Pure.
enum Text {
    /// Returns `text` with control characters and those that change the direction of writing replaced by `?`, so that
    /// it cannot control the terminal.
    static func printable(_ text: String) -> String {
        var printable = String.UnicodeScalarView()
        for scalar in text.unicodeScalars {
            switch scalar.value {
            case 0..<0x20, 0x7F..<0xA0, 0x061C, 0x200E...0x200F, 0x2028...0x202E, 0x2066...0x2069: printable.append("?")
            default: printable.append(scalar)
            }
        }
        return String(printable)
    }

    /// Returns the rows as lines with aligned columns, two spaces apart. The last text of a row may be longer than its column.
    static func table(_ rows: [[String]]) -> [String] {
        var widths: [Int] = []
        for row in rows {
            for (column, text) in row.dropLast().enumerated() {
                if column == widths.count { widths.append(0) }
                widths[column] = max(widths[column], columns(of: text))
            }
        }
        return rows.map { row in
            var line = ""
            for (column, text) in row.enumerated() {
                line += text
                // The last column is not padded.
                guard column < row.count - 1 else { break }
                line += String(repeating: " ", count: widths[column] - columns(of: text) + 2)
            }
            return line
        }
    }

    /// Returns the number of columns that a text takes on a terminal. East Asian characters and emoji take two (Unicode
    /// Standard Annex #11).
    static func columns(of text: String) -> Int {
        text.reduce(0) { columns, character in
            let scalar = character.unicodeScalars.first?.value ?? 0
            let isWide =
                switch scalar {
                case 0x1100...0x115F, 0x2E80...0xA4CF, 0xAC00...0xD7A3, 0xF900...0xFAFF, 0xFE30...0xFE6F,
                    0xFF00...0xFF60, 0xFFE0...0xFFE6, 0x1F300...0x1FAFF, 0x20000...0x3FFFD:
                    true
                default: false
                }
            return columns + (isWide ? 2 : 1)
        }
    }

    /// Returns a number with grouped digits, such as `1,234,567`.
    static func grouped(_ number: Int64) -> String {
        var text = ""
        for (index, digit) in String(number.magnitude).reversed().enumerated() {
            if index > 0, index.isMultiple(of: 3) { text.append(",") }
            text.append(digit)
        }
        return (number < 0 ? "-" : "") + String(text.reversed())
    }

    /// Returns a number of users: `1 user`, `1,234 users`.
    static func users(_ count: Int64) -> String { self.count(count, "user") }

    /// Returns a number of things: `1 session`, `1,234 sessions`.
    ///
    /// - Parameter noun: What is counted, in the singular. The plural ends in "s".
    static func count(_ count: Int64, _ noun: String) -> String { "\(grouped(count)) \(noun)\(count == 1 ? "" : "s")" }

    /// Returns a rate with one decimal below ten, such as `3.4/s`, and without decimals from there on, such as
    /// `1,234/s`.
    ///
    /// - Parameter perSecond: The rate, at least 0.
    static func rate(_ perSecond: Double) -> String {
        let tenths = Int64(clamping: perSecond * 10)
        guard tenths > 0, tenths < 100 else { return "\(grouped(Int64(clamping: perSecond)))/s" }
        return "\(tenths / 10).\(tenths % 10)/s"
    }

    /// Returns a share as a percentage with two decimals below ten percent, such as `0.33 %` or `less than 0.01 %`, and without decimals
    /// from there on.
    ///
    /// - Parameter share: At least 0; 1 for all.
    static func percent(_ share: Double) -> String {
        guard share <= 0 || share >= 0.0001 else { return "less than 0.01 %" }
        let hundredths = Int64(clamping: (share * 10_000).rounded(.up))
        guard hundredths < 1000 else { return "\(grouped(hundredths / 100)) %" }
        return "\(hundredths / 100).\(hundredths % 100 < 10 ? "0" : "")\(hundredths % 100) %"
    }

    /// Returns a duration in its two largest units, such as `45 s`, `3 min 20 s`, `2 h 5 min` or `4 d 3 h`.
    static func duration(seconds: Double) -> String {
        let seconds = Int64(clamping: seconds.rounded(.up))
        switch seconds {
        case ..<60: return "\(seconds) s"
        case ..<3600: return "\(seconds / 60) min \(seconds % 60) s"
        case ..<86_400: return "\(seconds / 3600) h \(seconds % 3600 / 60) min"
        default: return "\(grouped(seconds / 86_400)) d \(seconds % 86_400 / 3600) h"
        }
    }
}

extension JSONValue {
    /// Returns a member's text for a terminal.
    ///
    /// - Parameter absent: The text without such a member, or if it is not a text.
    func printable(_ name: String, orElse absent: String = "") -> String {
        Text.printable(self[name]?.string ?? absent)
    }

    /// Returns the rows of a table of members, each with its name. Members without a text are omitted.
    func printableRows(_ names: [String]) -> [[String]] {
        names.filter { self[$0]?.string != nil }.map { [$0, printable($0)] }
    }
}

extension Int64 {
    /// Creates the integer part of a number, clamped to the range of `Int64`; 0 for NaN.
    fileprivate init(clamping number: Double) {
        self = Int64(exactly: number.rounded(.towardZero)) ?? (number > 0 ? .max : 0)
    }
}
