package import PrometheusMetrics

/// A metric that is read when Prometheus asks for it (`docs/metrics.md`).
package struct Metric: Sendable {
    fileprivate let name: String
    fileprivate let kind: Kind
    fileprivate let help: String

    package enum Kind: Sendable {
        /// A number that only grows during the life of the process.
        case counter
        /// A number that goes up and down.
        case gauge
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
        fileprivate let samples: [(labels: [(String, String)], value: Double)]
    }

    /// Returns the reading of a metric without labels.
    package func reading(_ value: Double) -> Reading {
        Reading(metric: self, samples: [([], value)])
    }

    /// Returns the reading of a metric with one label.
    ///
    /// - Parameter samples: The value for each value of the label.
    package func reading(_ label: String, _ samples: [(String, Double)]) -> Reading {
        Reading(metric: self, samples: samples.map { ([(label, $0.0)], $0.1) })
    }
}

extension ExpositionText {
    /// Writes the family of a metric.
    package mutating func write(_ reading: Metric.Reading) {
        let kind: ExpositionText.Kind =
            switch reading.metric.kind {
            case .counter: .counter
            case .gauge: .gauge
            }
        family(reading.metric.name, kind, help: reading.metric.help)
        for (labels, value) in reading.samples { sample(reading.metric.name, labels, value) }
    }
}
