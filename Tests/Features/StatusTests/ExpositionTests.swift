import CoreMetrics
import PrometheusMetrics
import ServiceTesting
import Testing

/// Tests of the Prometheus text, parsed back by the definition of its format.
@Suite struct ExpositionTests {
    private static func factory(_ names: String...) -> PrometheusFactory {
        PrometheusFactory(help: Dictionary(uniqueKeysWithValues: names.map { ($0, "The help of \($0).") }))
    }

    private static func exposition(_ factory: PrometheusFactory) throws -> Exposition {
        var text = ExpositionText()
        factory.write(to: &text)
        return try Exposition(text.bytes)
    }

    @Test("A counter is a family with its help, its type and a sorted sample for each set of labels")
    func counters() throws {
        let factory = Self.factory("requests_total", "unused_total")
        let second = Counter(label: "requests_total", dimensions: [("b", "2"), ("a", "x")], factory: factory)
        let first = Counter(label: "requests_total", dimensions: [("a", "x"), ("b", "1")], factory: factory)
        second.increment(by: 3)
        first.increment()
        var text = ExpositionText()
        factory.write(to: &text)
        #expect(
            String(decoding: text.bytes, as: UTF8.self) == """
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
        let factory = PrometheusFactory(help: ["m": texts.joined(separator: "|")])
        for (index, text) in texts.enumerated() {
            Counter(label: "m", dimensions: [("text", text)], factory: factory).increment(by: index + 1)
        }
        let exposition = try Self.exposition(factory)
        #expect(exposition.families["m"]?.help == texts.joined(separator: "|"))
        for (index, text) in texts.enumerated() {
            #expect(exposition.value("m", ["text": text]) == Double(index + 1), "\(text)")
        }
    }

    @Test("A histogram's buckets are cumulative, and the last one equals its count")
    func histogram() throws {
        let factory = Self.factory("duration_seconds")
        let timer = Timer(label: "duration_seconds", dimensions: [("api", "a")], factory: factory)
        // A value equal to a bound counts in that bucket.
        let milliseconds = [0, 1, 2, 3, 250, 251, 9999, 10_000, 10_001, 60_000]
        for duration in milliseconds { timer.recordMilliseconds(duration) }
        timer.recordNanoseconds(-5)
        let family = try #require(try Self.exposition(factory).families["duration_seconds"])
        #expect(family.kind == "histogram")
        let buckets = family.samples.filter { $0.name == "duration_seconds_bucket" }
        #expect(
            buckets.map { $0.labels["le"] } == [
                "0.001", "0.0025", "0.005", "0.01", "0.025", "0.05", "0.1", "0.25", "0.5", "1", "2.5", "5", "10",
                "+Inf",
            ]
        )
        #expect(buckets.map(\.value) == [3, 4, 5, 5, 5, 5, 5, 6, 7, 7, 7, 7, 9, 11])
        #expect(buckets.allSatisfy { $0.labels["api"] == "a" })
        let sum = family.samples.first { $0.name == "duration_seconds_sum" }?.value ?? 0
        #expect(abs(sum - Double(milliseconds.reduce(0, +)) / 1000) < 1e-6)
        #expect(family.samples.first { $0.name == "duration_seconds_count" }?.value == 11)
    }

    @Test("Meters and gauges become gauges, floating-point counters counters, and recorders histograms")
    func kinds() throws {
        let factory = Self.factory("meter", "gauge", "recorder", "floating_total")
        let meter = Meter(label: "meter", factory: factory)
        meter.set(2.5)
        meter.increment(by: 1.0)
        meter.decrement(by: 0.25)
        Gauge(label: "gauge", factory: factory).record(-7)
        let recorder = Recorder(label: "recorder", factory: factory)
        recorder.record(0.002)
        recorder.record(Double.nan)
        let floating = FloatingPointCounter(label: "floating_total", factory: factory)
        floating.increment(by: 0.1)
        floating.increment(by: -1.0)
        floating.increment(by: Double.nan)
        let exposition = try Self.exposition(factory)
        let kinds = exposition.families.mapValues(\.kind)
        #expect(
            kinds == ["meter": "gauge", "gauge": "gauge", "recorder": "histogram", "floating_total": "counter"]
        )
        #expect(exposition.value("meter") == 3.25)
        #expect(exposition.value("gauge") == -7)
        #expect(exposition.value("floating_total") == 0.1)
        #expect(exposition.value("recorder_count") == 1)
        #expect(exposition.value("recorder_sum") == 0.002)
    }

    @Test(
        "Numbers are formatted as the format defines, and parsed back unchanged",
        arguments: [0, -0.5, 1e-9, 1e300, 123_456_789_012, .infinity, -.infinity, .pi]
    )
    func numbers(value: Double) throws {
        var text = ExpositionText()
        text.family("m", .gauge, help: "")
        text.sample("m", value)
        text.sample("m", [("n", "nan")], .nan)
        let exposition = try Exposition(text.bytes)
        #expect(exposition.value("m") == value)
        #expect(exposition.value("m", ["n": "nan"])?.isNaN == true)
    }

    @Test("A metric that is created twice has one value, and a destroyed metric disappears")
    func identity() throws {
        let factory = Self.factory("m_total", "t_seconds")
        let first = Counter(label: "m_total", dimensions: [("a", "1"), ("b", "2")], factory: factory)
        let second = Counter(label: "m_total", dimensions: [("b", "2"), ("a", "1")], factory: factory)
        first.increment()
        second.increment()
        first.increment(by: -1)
        #expect(try Self.exposition(factory).value("m_total", ["a": "1", "b": "2"]) == 2)
        first.reset()
        #expect(try Self.exposition(factory).value("m_total", ["a": "1", "b": "2"]) == 0)
        Timer(label: "t_seconds", factory: factory).destroy()
        first.destroy()
        #expect(try Self.exposition(factory).families.isEmpty)
        // Incrementing a destroyed metric has no effect.
        second.increment()
    }

    @Test("Concurrent increments are not lost, and a concurrent scrape is consistent")
    func concurrent() async throws {
        let factory = Self.factory("m_total", "f_total", "t_seconds")
        try await withThrowingTaskGroup(of: Void.self) { group in
            for _ in 0..<4 {
                group.addTask {
                    let counter = Counter(label: "m_total", factory: factory)
                    let floating = FloatingPointCounter(label: "f_total", factory: factory)
                    let timer = Timer(label: "t_seconds", factory: factory)
                    for _ in 0..<5000 {
                        counter.increment()
                        floating.increment(by: 0.5)
                        timer.recordSeconds(1)
                    }
                }
            }
            group.addTask {
                for _ in 0..<50 {
                    let exposition = try Self.exposition(factory)
                    let count = exposition.value("t_seconds_count")
                    #expect(exposition.value("t_seconds_bucket", ["le": "+Inf"]) == count)
                    #expect(exposition.value("t_seconds_sum") == count)
                }
            }
            try await group.waitForAll()
        }
        let exposition = try Self.exposition(factory)
        #expect(exposition.value("m_total") == 20_000)
        #expect(exposition.value("f_total") == 10_000)
        #expect(exposition.value("t_seconds_count") == 20_000)
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
