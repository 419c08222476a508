package import CoreMetrics
internal import Locking

/// What a program counts by swift-metrics, kept for Prometheus to read.
///
/// Each metric is made once, under a name that this factory was told of, and whoever counts keeps it: making one locks and looks up,
/// counting touches one word. Names and labels that Prometheus would refuse are mistakes of the program and end it, as does a name
/// that is used for two kinds of metric. Counters are counters, meters and gauges are gauges, timers (in seconds) and recorders are
/// histograms over ``HistogramSeries/upperBounds``.
///
/// A factory is handed to what counts, and is not `MetricsSystem`'s: a process may run several servers.
package final class PrometheusFactory: MetricsFactory {
    private struct Family {
        let kind: ExpositionText.Kind
        var series: [LabelText: any Series] = [:]
    }

    private let help: [String: String]
    private let families = Locked<[String: Family]>([:])

    /// - Parameter help: What each metric tells, by its name.
    package init(help: [String: String]) {
        for name in help.keys { precondition(Self.isName(name), "\(name) is no name of a metric") }
        self.help = help
    }

    /// Writes every metric that has been made: families by name, their series by labels.
    package func write(to text: inout ExpositionText) {
        let families = families.withLock { $0 }
        for (name, family) in families.sorted(by: { $0.key < $1.key }) where !family.series.isEmpty {
            text.family(name, family.kind, help: help[name] ?? "")
            for (labels, series) in family.series.sorted(by: { $0.key < $1.key }) {
                series.write(name, labels, to: &text)
            }
        }
    }

    // MARK: MetricsFactory

    package func makeCounter(label: String, dimensions: [(String, String)]) -> any CounterHandler {
        series(label, dimensions) { CounterSeries() }
    }

    package func makeFloatingPointCounter(
        label: String,
        dimensions: [(String, String)]
    ) -> any FloatingPointCounterHandler {
        series(label, dimensions) { FloatingPointCounterSeries() }
    }

    package func makeMeter(label: String, dimensions: [(String, String)]) -> any MeterHandler {
        series(label, dimensions) { GaugeSeries() }
    }

    package func makeRecorder(
        label: String,
        dimensions: [(String, String)],
        aggregate: Bool
    ) -> any RecorderHandler {
        aggregate ? series(label, dimensions) { HistogramSeries() } : series(label, dimensions) { GaugeSeries() }
    }

    package func makeTimer(label: String, dimensions: [(String, String)]) -> any TimerHandler {
        series(label, dimensions) { HistogramSeries() }
    }

    package func destroyCounter(_ handler: any CounterHandler) { remove(handler) }
    package func destroyFloatingPointCounter(_ handler: any FloatingPointCounterHandler) { remove(handler) }
    package func destroyMeter(_ handler: any MeterHandler) { remove(handler) }
    package func destroyRecorder(_ handler: any RecorderHandler) { remove(handler) }
    package func destroyTimer(_ handler: any TimerHandler) { remove(handler) }

    /// The series of that name and these labels: the same one whenever it is asked for.
    private func series<Made: Series>(_ name: String, _ labels: [(String, String)], make: () -> Made) -> Made {
        precondition(help[name] != nil, "\(name) has no help text")
        let names = labels.map(\.0)
        precondition(names.allSatisfy(Self.isLabelName), "\(name) has a label that cannot be one: \(names)")
        precondition(Set(names).count == names.count, "\(name) has a label twice: \(names)")
        let labels = LabelText(labels)
        return families.withLock { families in
            var family = families[name] ?? Family(kind: Made.kind)
            precondition(family.kind == Made.kind, "\(name) is a \(family.kind) already")
            if let known = family.series[labels] {
                guard let known = known as? Made else { preconditionFailure("\(name) counts in another way already") }
                return known
            }
            let made = make()
            family.series[labels] = made
            families[name] = family
            return made
        }
    }

    private func remove(_ handler: AnyObject) {
        families.withLock { families in
            families = families.mapValues { family in
                var family = family
                family.series = family.series.filter { $0.value !== handler }
                return family
            }
        }
    }

    // MARK: Names

    private static func isName(_ name: String) -> Bool {
        isWord(String(name.filter { $0 != ":" }))
    }

    /// `le` is the histogram's own, and names that begin with `__` are Prometheus's.
    private static func isLabelName(_ name: String) -> Bool {
        isWord(name) && name != "le" && !name.hasPrefix("__")
    }

    /// Letters, digits and `_`, the first no digit.
    private static func isWord(_ text: String) -> Bool {
        guard let first = text.utf8.first, !(0x30...0x39).contains(first) else { return false }
        return text.utf8.allSatisfy { octet in
            switch octet {
            case 0x30...0x39, 0x41...0x5A, 0x61...0x7A, UInt8(ascii: "_"): true
            default: false
            }
        }
    }
}
