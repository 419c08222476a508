/// A text in version 0.0.4 of Prometheus's text format (Prometheus, "Exposition formats").
///
/// A family is followed by its samples. The caller must not begin the same family twice.
package struct ExpositionText: Sendable {
    /// `Content-Type` of the text.
    package static let contentType = "text/plain; version=0.0.4; charset=utf-8"

    /// The type of a family.
    package enum Kind: String, Sendable {
        /// A number that only grows during the life of the process.
        case counter
        /// A number that goes up and down.
        case gauge
        /// Observations, counted by size.
        case histogram
    }

    /// The text so far, in UTF-8. Every line ends in a line feed.
    package private(set) var bytes: [UInt8] = []

    package init() {}

    /// Begins a family with its `HELP` and `TYPE` lines.
    ///
    /// - Parameters:
    ///   - name: Letters, digits, `_` and `:`; the first character is not a digit.
    ///   - help: A description of the metric; any text.
    package mutating func family(_ name: String, _ kind: Kind, help: String) {
        append("# HELP \(name) \(Self.escaped(help, isLabelValue: false))\n# TYPE \(name) \(kind.rawValue)\n")
    }

    /// Writes a sample without labels for the current family.
    package mutating func sample(_ name: String, _ value: Double) {
        sample(name, LabelText([]), Self.number(value))
    }

    /// Writes a sample for the current family.
    ///
    /// - Parameter labels: The names and values of the labels; a value may be any text.
    package mutating func sample(_ name: String, _ labels: [(String, String)], _ value: Double) {
        sample(name, LabelText(labels), Self.number(value))
    }

    /// - Parameter value: A number as formatted by ``number(_:)``.
    mutating func sample(_ name: String, _ labels: LabelText, _ value: String) {
        append(labels.text.isEmpty ? "\(name) \(value)\n" : "\(name){\(labels.text)} \(value)\n")
    }

    private mutating func append(_ text: String) {
        bytes.append(contentsOf: text.utf8)
    }

    /// Formats a number in the syntax of Go, as the format requires.
    static func number(_ value: Double) -> String {
        if value.isNaN { return "NaN" }
        if value.isInfinite { return value > 0 ? "+Inf" : "-Inf" }
        return Int64(exactly: value).map { String($0) } ?? String(value)
    }

    /// Escapes backslashes and line feeds, and in a label's value also quotation marks.
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

/// The labels of a series as they are written between the braces, sorted by name so that equal labels have equal text.
struct LabelText: Hashable, Comparable {
    let text: String

    /// - Parameter labels: Unique names of letters, digits and `_`; the first character is not a digit.
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

    /// Returns these labels and `le`, the upper bound of a histogram's bucket.
    func with(upperBound: String) -> LabelText {
        LabelText(text: (text.isEmpty ? "" : text + ",") + "le=\"\(upperBound)\"")
    }

    static func < (left: LabelText, right: LabelText) -> Bool { left.text < right.text }
}
