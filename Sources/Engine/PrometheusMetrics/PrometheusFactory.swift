package import CoreMetrics
import Locking

/// A swift-metrics factory that keeps metrics for Prometheus to scrape.
///
/// A caller should create each metric once and keep it: creating one takes a lock and a lookup, counting changes one
/// word. Counters become Prometheus counters, and meters become gauges. Timers (in seconds) and aggregating recorders
/// become histograms over ``HistogramSeries/upperBounds``; other recorders become gauges.
///
/// Some programming errors end the process: a metric without help text, an invalid or duplicate label name, and a
/// metric name that is used for two kinds of metric.
///
/// The factory is passed to the code that counts and is not installed in `MetricsSystem`, because a process may run
/// several servers.
package final class PrometheusFactory: MetricsFactory {
    private struct Family {
        let kind: ExpositionText.Kind
        var series: [LabelText: any Series] = [:]
    }

    private let help: [String: String]
    private let families = Locked<[String: Family]>([:])

    /// - Parameter help: The help text of each metric, by its name.
    package init(help: [String: String]) {
        for name in help.keys { precondition(Self.isName(name), "Invalid metric name: \(name)") }
        self.help = help
    }

    /// Writes every metric that has been created: families sorted by name, and their series sorted by labels.
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

    /// Returns the series with this name and these labels, which is created on first use.
    private func series<Made: Series>(_ name: String, _ labels: [(String, String)], make: () -> Made) -> Made {
        precondition(help[name] != nil, "Metric \(name) has no help text.")
        let names = labels.map(\.0)
        precondition(names.allSatisfy(Self.isLabelName), "Metric \(name) has an invalid label name: \(names)")
        precondition(Set(names).count == names.count, "Metric \(name) has a duplicate label name: \(names)")
        let labels = LabelText(labels)
        return families.withLock { families in
            var family = families[name] ?? Family(kind: Made.kind)
            precondition(family.kind == Made.kind, "Metric \(name) already exists as a \(family.kind).")
            if let known = family.series[labels] {
                guard let known = known as? Made else { preconditionFailure("Metric \(name) has another type.") }
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

    /// Returns whether `name` is a valid label name. Histograms use `le`, and Prometheus reserves names that begin with
    /// `__`.
    private static func isLabelName(_ name: String) -> Bool {
        isWord(name) && name != "le" && !name.hasPrefix("__")
    }

    /// Returns whether `text` consists of letters, digits and `_`, and does not begin with a digit.
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
