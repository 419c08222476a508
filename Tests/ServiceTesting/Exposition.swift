import HTTPClient
import HTTPTypes
import Testing

/// A text in Prometheus's format 0.0.4, parsed strictly (Prometheus, "Exposition formats").
///
/// It is stricter than the format: every family appears once, with its help, its type and then its samples.
package struct Exposition {
    package struct Sample {
        package let name: String
        package let labels: [String: String]
        package let value: Double
    }

    private struct Series: Hashable {
        let name: String
        let labels: [String: String]
    }

    package struct Family {
        package let help: String
        package let kind: String
        package var samples: [Sample] = []
    }

    /// The problem of an invalid text, and its line.
    package struct Malformed: Error {
        package let reason: String
        package let line: String
    }

    package private(set) var families: [String: Family] = [:]

    /// - Throws: ``Malformed`` for an invalid text.
    package init(_ bytes: [UInt8]) throws {
        guard bytes.isEmpty || bytes.last == UInt8(ascii: "\n") else {
            throw Malformed(reason: "no line feed at the end", line: "")
        }
        var reader = Reader(bytes: bytes[...])
        while !reader.bytes.isEmpty {
            let line = reader.bytes.prefix { $0 != UInt8(ascii: "\n") }
            do throws(Reader.Refusal) {
                try readFamily(&reader)
            } catch {
                let last = error.rest.prefix { $0 != UInt8(ascii: "\n") }
                throw Malformed(
                    reason: "\(error.reason) in the family that begins with \(String(decoding: line, as: UTF8.self))",
                    line: String(decoding: last, as: UTF8.self)
                )
            }
        }
    }

    /// Returns the value of the sample with exactly these labels.
    package func value(_ name: String, _ labels: [String: String] = [:]) -> Double? {
        for family in families.values {
            if let sample = family.samples.first(where: { $0.name == name && $0.labels == labels }) {
                return sample.value
            }
        }
        return nil
    }

    private mutating func readFamily(_ reader: inout Reader) throws(Reader.Refusal) {
        try reader.take("# HELP ")
        let name = try reader.name()
        try reader.take(" ")
        let help = try reader.escaped(until: "\n", allowing: #"\n"#)
        try reader.take("# TYPE \(name) ")
        guard let kind = ["counter", "gauge", "histogram"].first(where: { reader.skip("\($0)\n") }) else {
            throw reader.refusal("an unknown type of metric")
        }
        guard families[name] == nil else { throw reader.refusal("a duplicate family") }
        var family = Family(help: help, kind: kind)
        var series: Set<Series> = []
        while !reader.bytes.isEmpty, reader.bytes.first != UInt8(ascii: "#") {
            let sample = try reader.sample()
            let names = kind == "histogram" ? ["_bucket", "_sum", "_count"].map { name + $0 } : [name]
            guard names.contains(sample.name) else { throw reader.refusal("a sample of another family") }
            guard series.insert(Series(name: sample.name, labels: sample.labels)).inserted else {
                throw reader.refusal("a duplicate sample")
            }
            guard kind == "gauge" || sample.value >= 0 || sample.name.hasSuffix("_sum") else {
                throw reader.refusal("a negative count")
            }
            family.samples.append(sample)
        }
        guard !family.samples.isEmpty else { throw reader.refusal("a family without samples") }
        if kind == "histogram", let fault = Self.histogramFault(name, family.samples) { throw reader.refusal(fault) }
        families[name] = family
    }

    /// Returns the fault of a histogram, or `nil` if it is valid: its buckets are ordered and cumulative, the last one
    /// is `+Inf` and equals the count, and there is a sum.
    private static func histogramFault(_ name: String, _ samples: [Sample]) -> String? {
        let series = Dictionary(grouping: samples) { sample in sample.labels.filter { $0.key != "le" } }
        for samples in series.values {
            let buckets = samples.filter { $0.name == name + "_bucket" }
            let bounds = buckets.map { $0.labels["le"].flatMap(Reader.number) ?? .nan }
            let counts = buckets.map(\.value)
            guard !zip(bounds, bounds.dropFirst()).contains(where: { !($0 < $1) }) else { return "bounds not in order" }
            guard !zip(counts, counts.dropFirst()).contains(where: { $0 > $1 }) else { return "buckets not cumulative" }
            guard bounds.last == .infinity else { return "no bucket +Inf" }
            let count = samples.filter { $0.name == name + "_count" }
            guard count.count == 1, count[0].value == counts.last else { return "the count and the last bucket differ" }
            guard samples.filter({ $0.name == name + "_sum" }).count == 1 else { return "no sum" }
        }
        return nil
    }

    /// A parser that consumes the text from its start.
    private struct Reader {
        struct Refusal: Error {
            let reason: String
            let rest: ArraySlice<UInt8>
        }

        var bytes: ArraySlice<UInt8>

        func refusal(_ reason: String) -> Refusal { Refusal(reason: reason, rest: bytes) }

        mutating func skip(_ text: String) -> Bool {
            guard bytes.starts(with: text.utf8) else { return false }
            bytes = bytes.dropFirst(text.utf8.count)
            return true
        }

        mutating func take(_ text: String) throws(Refusal) {
            guard skip(text) else { throw refusal("expected \(text)") }
        }

        mutating func name() throws(Refusal) -> String {
            let name = bytes.prefix { octet in
                switch octet {
                case 0x30...0x39, 0x41...0x5A, 0x61...0x7A, UInt8(ascii: "_"), UInt8(ascii: ":"): true
                default: false
                }
            }
            guard let first = name.first, !(0x30...0x39).contains(first) else { throw refusal("expected a name") }
            bytes = bytes[name.endIndex...]
            return String(decoding: name, as: UTF8.self)
        }

        /// Consumes and returns a text up to `end`, and `end` itself. A backslash must precede another one or one of
        /// `escapes`.
        mutating func escaped(until end: Character, allowing escapes: String) throws(Refusal) -> String {
            var text: [UInt8] = []
            while let octet = bytes.popFirst() {
                switch octet {
                case end.asciiValue:
                    return String(decoding: text, as: UTF8.self)
                case UInt8(ascii: "\\"):
                    switch bytes.popFirst() {
                    case UInt8(ascii: "\\"): text.append(UInt8(ascii: "\\"))
                    case UInt8(ascii: "n"): text.append(UInt8(ascii: "\n"))
                    case UInt8(ascii: "\"") where escapes.contains("\""): text.append(UInt8(ascii: "\""))
                    default: throw refusal("an unknown escape")
                    }
                case UInt8(ascii: "\n"):
                    throw refusal("a line feed within a text")
                default:
                    text.append(octet)
                }
            }
            throw refusal("an unterminated text")
        }

        mutating func sample() throws(Refusal) -> Sample {
            let name = try name()
            var labels: [String: String] = [:]
            if skip("{") {
                repeat {
                    let label = try self.name()
                    try take("=\"")
                    let value = try escaped(until: "\"", allowing: #"n""#)
                    guard labels.updateValue(value, forKey: label) == nil else { throw refusal("a duplicate label") }
                } while skip(",")
                try take("}")
            }
            try take(" ")
            let text = String(decoding: bytes.prefix { $0 != UInt8(ascii: "\n") }, as: UTF8.self)
            guard let value = Self.number(text) else { throw refusal("expected a number") }
            bytes = bytes.dropFirst(text.utf8.count)
            try take("\n")
            return Sample(name: name, labels: labels, value: value)
        }

        static func number(_ text: String) -> Double? {
            switch text {
            case "+Inf": .infinity
            case "-Inf": -.infinity
            case "NaN": .nan
            // A number must have a digit, which excludes Swift's other spellings.
            default: text.contains(where: \.isNumber) ? Double(text) : nil
            }
        }
    }
}

extension TestClient {
    /// Returns the metrics, parsed strictly.
    package func metrics() async throws -> Exposition {
        let answer = try await get("/metrics")
        #expect(answer.status == 200)
        #expect(answer.headerFields[.contentType] == "text/plain; version=0.0.4; charset=utf-8")
        return try Exposition(answer.body)
    }
}
