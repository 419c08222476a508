import ServiceTesting
import Testing

@testable import Runtime
@testable import ServiceKit

/// Tests of the Prometheus text, parsed back by the definition of its format.
@Suite struct ExpositionTests {
    private static func text(_ readings: [Metric.Reading]) -> [UInt8] {
        var text = ExpositionText()
        for reading in readings { text.write(reading) }
        return text.bytes
    }

    private static func exposition(_ readings: [Metric.Reading]) throws -> Exposition {
        try Exposition(text(readings))
    }

    @Test("A metric is a family with its help, its type and its samples, whose labels are sorted")
    func counters() throws {
        let requests = Metric("requests_total", .counter, "The help of requests_total.")
        let unused = Metric("unused_total", .counter, "The help of unused_total.")
        let text = Self.text([
            requests.reading([([("a", "x"), ("b", "1")], 1), ([("b", "2"), ("a", "x")], 3)]),
            unused.reading([] as [(Metric.Labels, Double)]),
        ])
        #expect(
            String(decoding: text, as: UTF8.self) == """
                # HELP requests_total The help of requests_total.
                # TYPE requests_total counter
                requests_total{a="x",b="1"} 1
                requests_total{a="x",b="2"} 3

                """
        )
        #expect(ExpositionText.contentType == "text/plain; version=0.0.4; charset=utf-8")
    }

    @Test("Any label value and help text is parsed back unchanged")
    func escapes() throws {
        let texts = [
            "", "plain", #"a "quoted" word"#, #"back\slash"#, "line\nfeed", #"\n"#, "\\\n\"", "카카오 😀", #"{a="b"} 1"#,
            "\r\t, =#",
            "e\u{301}",
        ]
        let metric = Metric("m", .counter, texts.joined(separator: "|"))
        let samples = texts.enumerated().map { ($0.element, Double($0.offset + 1)) }
        let exposition = try Self.exposition([metric.reading("text", samples)])
        #expect(exposition.families["m"]?.help == texts.joined(separator: "|"))
        for (index, text) in texts.enumerated() {
            #expect(exposition.value("m", ["text": text]) == Double(index + 1), "\(text)")
        }
    }

    @Test("A gauge may be negative or a fraction")
    func gauge() throws {
        let gauge = Metric("gauge", .gauge, "The help of gauge.")
        let exposition = try Self.exposition([gauge.reading("sign", [("minus", -7), ("plus", 3.25)])])
        #expect(exposition.families.mapValues(\.kind) == ["gauge": "gauge"])
        #expect(exposition.value("gauge", ["sign": "minus"]) == -7)
        #expect(exposition.value("gauge", ["sign": "plus"]) == 3.25)
    }

    @Test(
        "Numbers are formatted as the format defines, and parsed back unchanged",
        arguments: [0, -0.5, 1e-9, 1e300, 123_456_789_012, .infinity, -.infinity, .pi]
    )
    func numbers(value: Double) throws {
        var text = ExpositionText()
        text.family("m", .gauge, help: "")
        text.sample("m", [], value)
        text.sample("m", [("n", "nan")], .nan)
        let exposition = try Exposition(text.bytes)
        #expect(exposition.value("m") == value)
        #expect(exposition.value("m", ["n": "nan"])?.isNaN == true)
    }

    @Test(
        "The parser of these tests rejects invalid text",
        arguments: [
            "m 1\n", "# TYPE m counter\nm 1\n", "# HELP m h\n# TYPE m counter\nm 1",
            "# HELP m h\n# TYPE m counter\nm{a=\"b\"c=\"d\"} 1\n", "# HELP m h\n# TYPE m counter\nm{a=\"b} 1\n",
            "# HELP m h\n# TYPE m counter\nm 1\nm 2\n", "# HELP m h\n# TYPE m counter\nother 1\n",
            "# HELP m h\n# TYPE m counter\nm one\n", "# HELP m h\n# TYPE m counter\nm -1\n",
            "# HELP m h\n# TYPE m other\nm 1\n", "# HELP m h\n# TYPE m counter\nm{a=\"\\x\"} 1\n",
            "# HELP m h\n# TYPE m histogram\nm_bucket{le=\"+Inf\"} 2\nm_sum 1\nm_count 1\n",
            "# HELP m h\n# TYPE m histogram\nm_bucket{le=\"1\"} 2\nm_bucket{le=\"+Inf\"} 1\nm_sum 1\nm_count 1\n",
            "# HELP m h\n# TYPE m histogram\nm_bucket{le=\"1\"} 1\nm_sum 1\nm_count 1\n",
            "# HELP m h\n# TYPE m counter\nm 1\n# HELP m h\n# TYPE m counter\nm{a=\"b\"} 1\n",
        ]
    )
    func refused(text: String) {
        #expect(throws: Exposition.Malformed.self) { try Exposition(Array(text.utf8)) }
    }
}
