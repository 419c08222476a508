package import EventLoop
package import PrometheusMetrics

/// A metric that is read when Prometheus asks for it (`docs/metrics.md`).
package struct Metric: Sendable {
    /// The labels of a sample: names and values.
    package typealias Labels = [(String, String)]

    fileprivate let name: String
    fileprivate let kind: Kind
    fileprivate let help: String

    package enum Kind: Sendable {
        /// A number that only grows during the life of the process.
        case counter
        /// A number that goes up and down.
        case gauge
        /// Durations, counted by size.
        case histogram
    }

    /// - Parameters:
    ///   - name: The name, in Prometheus's style: `kakao_push_batches`.
    ///   - help: What it measures, in one sentence.
    package init(_ name: String, _ kind: Kind, _ help: String) {
        self.name = name
        self.kind = kind
        self.help = help
    }

    /// The values of a metric at one time.
    package struct Reading: Sendable {
        fileprivate let metric: Metric
        fileprivate let samples: [Sample]
    }

    fileprivate struct Sample: Sendable {
        /// The end of the sample's name: that of the metric, and `_sum` or the like of a histogram.
        var suffix = ""
        let labels: Labels
        let value: Double
    }

    /// Returns the reading of a metric without labels.
    package func reading(_ value: Double) -> Reading {
        reading([([], value)])
    }

    /// Returns the reading of a metric with one label.
    ///
    /// - Parameter samples: The value for each value of the label.
    package func reading(_ label: String, _ samples: [(String, Double)]) -> Reading {
        reading(samples.map { ([(label, $0.0)], $0.1) })
    }

    /// Returns the reading of a metric with any labels. Without samples, nothing is written.
    package func reading(_ samples: [(Labels, Double)]) -> Reading {
        Reading(metric: self, samples: samples.map { Sample(labels: $0.0, value: $0.1) })
    }

    /// Returns the reading of a histogram, in seconds. Without samples, nothing is written.
    package func reading(_ durations: [(Labels, DurationCounts)]) -> Reading {
        Reading(metric: self, samples: durations.flatMap { Self.samples($0.0, $0.1) })
    }

    private static func samples(_ labels: Labels, _ durations: DurationCounts) -> [Sample] {
        let bounds = DurationCounts.upperBounds.map { String(Double($0) / 1000) } + ["+Inf"]
        var count = 0
        var samples = zip(bounds, durations.counts).map { bound, own in
            count += own
            return Sample(suffix: "_bucket", labels: labels + [("le", bound)], value: Double(count))
        }
        samples.append(Sample(suffix: "_sum", labels: labels, value: Double(durations.sum) / 1000))
        samples.append(Sample(suffix: "_count", labels: labels, value: Double(count)))
        return samples
    }
}

extension ExpositionText {
    /// Writes the family of a metric.
    package mutating func write(_ reading: Metric.Reading) {
        guard !reading.samples.isEmpty else { return }
        let kind: ExpositionText.Kind =
            switch reading.metric.kind {
            case .counter: .counter
            case .gauge: .gauge
            case .histogram: .histogram
            }
        family(reading.metric.name, kind, help: reading.metric.help)
        for sample in reading.samples { self.sample(reading.metric.name + sample.suffix, sample.labels, sample.value) }
    }
}
