/// A text in version 0.0.4 of Prometheus's text format (Prometheus, "Exposition formats").
///
/// A family is followed by its samples. The caller must not begin the same family twice.
package struct ExpositionText: Sendable {
    /// `Content-Type` of the text.
    package static let contentType = "text/plain; version=0.0.4; charset=utf-8"

    /// The text so far, in UTF-8. Every line ends in a line feed.
    package private(set) var bytes: [UInt8] = []

    package init() {}

    /// Begins a family with its `HELP` and `TYPE` lines.
    ///
    /// - Parameters:
    ///   - name: Letters, digits, `_` and `:`; the first character is not a digit.
    ///   - help: A description of the metric; any text.
    mutating func family(_ name: String, _ kind: Metric.Kind, help: String) {
        append("# HELP \(name) \(Self.escaped(help, isLabelValue: false))\n# TYPE \(name) \(kind.rawValue)\n")
    }

    /// Writes a sample for the current family, with its labels sorted by name.
    ///
    /// - Parameter labels: Unique names of letters, digits and `_`, of which the first character is not a digit, and their
    ///   values; a value may be any text.
    mutating func sample(_ name: String, _ labels: Metric.Labels, _ value: Double) {
        let pairs = labels.sorted { $0.0 < $1.0 }
            .map { name, value in "\(name)=\"\(Self.escaped(value, isLabelValue: true))\"" }
        let text = pairs.isEmpty ? "" : "{\(pairs.joined(separator: ","))}"
        append("\(name)\(text) \(Self.number(value))\n")
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
    private static func escaped(_ text: String, isLabelValue: Bool) -> String {
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
