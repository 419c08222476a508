import EventLoop

/// A metric that is read when Prometheus asks for it (`docs/metrics.md`).
package struct Metric: Sendable {
    /// The labels of a sample: names and values.
    package typealias Labels = [(String, String)]

    fileprivate let name: String
    fileprivate let kind: Kind
    fileprivate let help: String

    /// The kind, by the name of its type in Prometheus's text format.
    package enum Kind: String, Sendable {
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

    /// Durations in seconds, counted by size.
    package struct Histogram: Sendable {
        /// The upper bounds of the counts, as the label `le` shows them.
        let bounds: [String]
        /// The number of durations up to each bound and above the one before; the last number is that of durations
        /// above all bounds.
        let counts: [Int]
        /// The sum of the durations.
        let sum: Double
    }

    /// Returns the reading of a histogram, in seconds. Without samples, nothing is written.
    package func reading(_ durations: [(Labels, DurationCounts)]) -> Reading {
        let bounds = DurationCounts.upperBounds.map { String(Double($0) / 1000) }
        return reading(
            durations.map { ($0.0, Histogram(bounds: bounds, counts: $0.1.counts, sum: Double($0.1.sum) / 1000)) }
        )
    }

    /// Returns the reading of a histogram. Without samples, nothing is written.
    package func reading(_ histograms: [(Labels, Histogram)]) -> Reading {
        Reading(metric: self, samples: histograms.flatMap { Self.samples($0.0, $0.1) })
    }

    private static func samples(_ labels: Labels, _ histogram: Histogram) -> [Sample] {
        var count = 0
        var samples = zip(histogram.bounds + ["+Inf"], histogram.counts).map { bound, own in
            count += own
            return Sample(suffix: "_bucket", labels: labels + [("le", bound)], value: Double(count))
        }
        samples.append(Sample(suffix: "_sum", labels: labels, value: histogram.sum))
        samples.append(Sample(suffix: "_count", labels: labels, value: Double(count)))
        return samples
    }
}

extension ExpositionText {
    /// Writes the family of a metric.
    package mutating func write(_ reading: Metric.Reading) {
        guard !reading.samples.isEmpty else { return }
        family(reading.metric.name, reading.metric.kind, help: reading.metric.help)
        for sample in reading.samples { self.sample(reading.metric.name + sample.suffix, sample.labels, sample.value) }
    }
}
