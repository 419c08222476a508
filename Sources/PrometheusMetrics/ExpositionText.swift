/// Text as Prometheus reads it, in version 0.0.4 of its format (Prometheus, "Exposition formats").
///
/// Families follow one another, each with its samples behind it: whoever writes sees to it that none comes twice.
package struct ExpositionText: Sendable {
    /// `Content-Type` of the text.
    package static let contentType = "text/plain; version=0.0.4; charset=utf-8"

    /// What the samples of a family are.
    package enum Kind: String, Sendable {
        /// A number that only grows while the process lives.
        case counter
        /// A number that goes up and down.
        case gauge
        /// Observations, counted by how large they were.
        case histogram
    }

    /// The text so far, in UTF-8; every line ends in a line feed.
    package private(set) var bytes: [UInt8] = []

    package init() {}

    /// Begins a family: its lines `HELP` and `TYPE`.
    ///
    /// - Parameters:
    ///   - name: Letters, digits, `_` and `:`, the first no digit.
    ///   - help: What it tells, in any words.
    package mutating func family(_ name: String, _ kind: Kind, help: String) {
        append("# HELP \(name) \(Self.escaped(help, isLabelValue: false))\n# TYPE \(name) \(kind.rawValue)\n")
    }

    /// Writes a sample without labels, of the family that was begun last.
    package mutating func sample(_ name: String, _ value: Double) {
        sample(name, LabelText([]), Self.number(value))
    }

    /// Writes a sample, of the family that was begun last.
    ///
    /// - Parameter labels: Names and values; a value may be any text.
    package mutating func sample(_ name: String, _ labels: [(String, String)], _ value: Double) {
        sample(name, LabelText(labels), Self.number(value))
    }

    /// - Parameter value: A number in the format's own spelling.
    mutating func sample(_ name: String, _ labels: LabelText, _ value: String) {
        append(labels.text.isEmpty ? "\(name) \(value)\n" : "\(name){\(labels.text)} \(value)\n")
    }

    private mutating func append(_ text: String) {
        bytes.append(contentsOf: text.utf8)
    }

    /// A number as Go reads and writes it, which is what the format asks for.
    static func number(_ value: Double) -> String {
        if value.isNaN { return "NaN" }
        if value.isInfinite { return value > 0 ? "+Inf" : "-Inf" }
        return Int64(exactly: value).map { String($0) } ?? String(value)
    }

    /// A backslash and a line feed cannot stand for themselves anywhere, a quotation mark not in a label's value.
    static func escaped(_ text: String, isLabelValue: Bool) -> String {
        var escaped = ""
        for scalar in text.unicodeScalars {
            switch scalar {
            case "\\": escaped += "\\\\"
            case "\n": escaped += "\\n"
            case "\"" where isLabelValue: escaped += "\\\""
            default: escaped.unicodeScalars.append(scalar)
            }
        }
        return escaped
    }
}

/// The labels of a series as they stand between the braces: sorted by name, so that the same labels are the same text.
struct LabelText: Hashable, Comparable {
    let text: String

    /// - Parameter labels: Each name is letters, digits and `_`, the first no digit, and is given once.
    init(_ labels: [(String, String)]) {
        text =
            labels
            .sorted { $0.0 < $1.0 }
            .map { name, value in "\(name)=\"\(ExpositionText.escaped(value, isLabelValue: true))\"" }
            .joined(separator: ",")
    }

    private init(text: String) {
        self.text = text
    }

    /// The same and `le`, the upper bound of a histogram's bucket.
    func with(upperBound: String) -> LabelText {
        LabelText(text: (text.isEmpty ? "" : text + ",") + "le=\"\(upperBound)\"")
    }

    static func < (left: LabelText, right: LabelText) -> Bool { left.text < right.text }
}
