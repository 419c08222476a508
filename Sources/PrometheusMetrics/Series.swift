internal import CoreMetrics
internal import Locking
internal import Synchronization

/// One metric with one set of labels: takes what is counted, and writes it down when it is asked for.
protocol Series: AnyObject, Sendable {
    static var kind: ExpositionText.Kind { get }
    func write(_ name: String, _ labels: LabelText, to text: inout ExpositionText)
}

/// Counts whole things.
final class CounterSeries: Series, CounterHandler {
    static let kind = ExpositionText.Kind.counter
    private let value = Atomic<Int64>(0)

    /// A counter only grows: a negative amount is left out.
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

/// Adds up amounts that are no whole numbers.
final class FloatingPointCounterSeries: Series, FloatingPointCounterHandler {
    static let kind = ExpositionText.Kind.counter
    private let value = Locked(0.0)

    /// A counter only grows: an amount that is negative or no number is left out.
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

/// A number that is what it was last said to be.
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

/// Counts observations by how large they were.
final class HistogramSeries: Series, TimerHandler, RecorderHandler {
    /// Observations up to each of these: seconds, made for latencies of 1 ms to 10 s, which is as long as a call may take.
    static let upperBounds = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10]
    static let kind = ExpositionText.Kind.histogram
    private static let bucketLabels = upperBounds.map(ExpositionText.number) + ["+Inf"]

    private struct State {
        /// How many fell between a bound and the one before it; the last, above all bounds.
        var counts = [Int](repeating: 0, count: HistogramSeries.upperBounds.count + 1)
        var sum = 0.0
    }

    // Under one lock, so that buckets, count and sum are those of the same observations.
    private let state = Locked(State())

    func record(_ value: Double) {
        // What is no number is in no bucket, and would make the sum none for ever.
        guard !value.isNaN else { return }
        let bucket = Self.upperBounds.firstIndex { value <= $0 } ?? Self.upperBounds.count
        state.withLock { state in
            state.counts[bucket] += 1
            state.sum += value
        }
    }

    func record(_ value: Int64) { record(Double(value)) }

    /// Recorded in seconds. A clock that went back took no time.
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
