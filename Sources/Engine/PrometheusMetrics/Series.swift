import CoreMetrics
import Locking
import Synchronization

/// A metric with one set of labels that records values and writes them on request.
protocol Series: AnyObject, Sendable {
    static var kind: ExpositionText.Kind { get }
    func write(_ name: String, _ labels: LabelText, to text: inout ExpositionText)
}

/// A counter of integers.
final class CounterSeries: Series, CounterHandler {
    static let kind = ExpositionText.Kind.counter
    private let value = Atomic<Int64>(0)

    /// Adds `amount`. A counter only grows, so a negative amount is ignored.
    func increment(by amount: Int64) {
        if amount > 0 { value.wrappingAdd(amount, ordering: .relaxed) }
    }

    func reset() {
        value.store(0, ordering: .relaxed)
    }

    func write(_ name: String, _ labels: LabelText, to text: inout ExpositionText) {
        text.sample(name, labels, String(value.load(ordering: .relaxed)))
    }
}

/// A counter of floating-point amounts.
final class FloatingPointCounterSeries: Series, FloatingPointCounterHandler {
    static let kind = ExpositionText.Kind.counter
    private let value = Locked(0.0)

    /// Adds `amount`. A counter only grows, so a negative amount or NaN is ignored.
    func increment(by amount: Double) {
        if amount > 0 { value.withLock { $0 += amount } }
    }

    func reset() {
        value.withLock { $0 = 0 }
    }

    func write(_ name: String, _ labels: LabelText, to text: inout ExpositionText) {
        text.sample(name, labels, ExpositionText.number(value.withLock { $0 }))
    }
}

/// A gauge that holds the last value set.
final class GaugeSeries: Series, MeterHandler, RecorderHandler {
    static let kind = ExpositionText.Kind.gauge
    private let value = Locked(0.0)

    func set(_ value: Double) { self.value.withLock { $0 = value } }
    func set(_ value: Int64) { set(Double(value)) }
    func record(_ value: Double) { set(value) }
    func record(_ value: Int64) { set(Double(value)) }
    func increment(by amount: Double) { value.withLock { $0 += amount } }
    func decrement(by amount: Double) { value.withLock { $0 -= amount } }

    func write(_ name: String, _ labels: LabelText, to text: inout ExpositionText) {
        text.sample(name, labels, ExpositionText.number(value.withLock { $0 }))
    }
}

/// A histogram that counts observations by size.
final class HistogramSeries: Series, TimerHandler, RecorderHandler {
    /// The upper bounds of the buckets in seconds, for latencies from 1 ms to 10 s, the time limit of most calls to Kakao.
    /// Uploads may take 30 s.
    static let upperBounds = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10]
    static let kind = ExpositionText.Kind.histogram
    private static let bucketLabels = upperBounds.map(ExpositionText.number) + ["+Inf"]

    private struct State {
        /// The number of observations per bucket; the last bucket holds those above all bounds.
        var counts = [Int](repeating: 0, count: HistogramSeries.upperBounds.count + 1)
        var sum = 0.0
    }

    // One lock covers all three, so that buckets, count and sum describe the same observations.
    private let state = Locked(State())

    func record(_ value: Double) {
        // NaN belongs to no bucket and would make the sum NaN for ever.
        guard !value.isNaN else { return }
        let bucket = Self.upperBounds.firstIndex { value <= $0 } ?? Self.upperBounds.count
        state.withLock { state in
            state.counts[bucket] += 1
            state.sum += value
        }
    }

    func record(_ value: Int64) { record(Double(value)) }

    /// Records a duration in seconds. A negative duration, from a clock that stepped back, counts as 0.
    func recordNanoseconds(_ duration: Int64) { record(Double(max(0, duration)) / 1e9) }

    func write(_ name: String, _ labels: LabelText, to text: inout ExpositionText) {
        let state = state.withLock { $0 }
        var count = 0
        for (own, bound) in zip(state.counts, Self.bucketLabels) {
            count += own
            text.sample(name + "_bucket", labels.with(upperBound: bound), String(count))
        }
        text.sample(name + "_sum", labels, ExpositionText.number(state.sum))
        text.sample(name + "_count", labels, String(count))
    }
}
