import Testing

@testable import Runtime

@Suite struct MonitoringTests {
    @Test("The sources are read at the same time, and reported in their order")
    func sources() async {
        let monitoring = Monitoring()
        let (arrivals, arrival) = AsyncStream.makeStream(of: Void.self)
        let metrics = ["first", "second"].map { Metric($0, .gauge, "A metric.") }
        monitoring.register {
            // Waits for the second source, which is registered later.
            for await _ in arrivals { break }
            return Monitoring.Report(metrics: [metrics[0].reading(1)])
        }
        monitoring.register {
            arrival.yield()
            return Monitoring.Report(metrics: [metrics[1].reading(2)])
        }
        let report = await monitoring.report()
        var text = ExpositionText()
        for reading in report.metrics { text.write(reading) }
        let samples = String(decoding: text.bytes, as: UTF8.self).split(separator: "\n").filter { !$0.hasPrefix("#") }
        #expect(samples == ["first 1", "second 2"])
    }

    @Test("The backlog is that of all queues, up to the limit of a count")
    func backlog() async {
        let monitoring = Monitoring()
        #expect(await monitoring.report().backlog == nil)
        monitoring.register { Monitoring.Report(metrics: [], backlog: Backlog(batches: 3, oldestSeconds: 7)) }
        monitoring.register { Monitoring.Report(metrics: []) }
        monitoring.register { Monitoring.Report(metrics: [], backlog: Backlog(batches: 4, oldestSeconds: 2)) }
        #expect(await monitoring.report().backlog?.batches == 7)
        #expect(await monitoring.report().backlog?.oldestSeconds == 7)
        monitoring.register { Monitoring.Report(metrics: [], backlog: Backlog(batches: 1_000_000, oldestSeconds: 0)) }
        #expect(await monitoring.report().backlog?.batches == Backlog.limit)
    }

    @Test("The database counts as unavailable if one of the sources could not read it")
    func database() async {
        let monitoring = Monitoring()
        monitoring.register { Monitoring.Report(metrics: []) }
        #expect(await monitoring.report().isDatabaseUp)
        monitoring.register { Monitoring.Report(metrics: [], isDatabaseUp: false) }
        #expect(await !monitoring.report().isDatabaseUp)
    }
}
