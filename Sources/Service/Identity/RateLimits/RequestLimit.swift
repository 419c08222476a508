package import EventLoop
package import HTTPServer
import HTTPTypes
import Locking
import Runtime

/// A limit of requests a minute, an hour or a day, for each key, such as a user or an address. Shared by all event loops of a
/// server, but not between servers.
///
/// Each key has a token bucket that holds the requests of that time and fills evenly: in any such time, twice as many
/// pass at most, and the limit over longer times. The bucket is stored as a single
/// point in time: when it will be full (the generic cell rate algorithm, ITU-T I.371 §A). An evicted bucket counts as
/// full. Therefore only a bounded number is stored, those used last, and a request costs the same short time whatever
/// the number of callers.
package final class RequestLimit<Key: Hashable & Sendable>: Sendable {
    /// The maximum number of buckets stored: a few megabytes.
    static var maximumBuckets: Int { 65_536 }

    private struct State {
        /// The capacity of a bucket, as the time in which it fills.
        var capacity: Duration
        /// The time in which a bucket gains one request; `nil` for no limit.
        var interval: Duration?
        /// When each bucket will be full.
        var buckets = LRUCache<Key, MonotonicTime>(limit: RequestLimit.maximumBuckets)
    }

    private let state: Locked<State>

    private init(_ requests: Int?, per time: Duration) {
        state = Locked(State(capacity: time))
        apply(requests, per: time)
    }

    /// - Parameter perMinute: 1 or more; `nil` for no limit.
    package convenience init(perMinute: Int?) {
        self.init(perMinute, per: .seconds(60))
    }

    /// - Parameter perHour: 1 or more; `nil` for no limit.
    package convenience init(perHour: Int?) {
        self.init(perHour, per: .seconds(3600))
    }

    /// - Parameter perDay: 1 or more; `nil` for no limit.
    convenience init(perDay: Int?) {
        self.init(perDay, per: .seconds(86_400))
    }

    /// Sets another limit for further requests: 1 or more, or `nil` for none.
    package func apply(perMinute: Int?) { apply(perMinute, per: .seconds(60)) }

    /// Sets another limit for further requests: 1 or more, or `nil` for none.
    package func apply(perHour: Int?) { apply(perHour, per: .seconds(3600)) }

    /// Sets another limit for further requests: 1 or more, or `nil` for none.
    func apply(perDay: Int?) { apply(perDay, per: .seconds(86_400)) }

    private func apply(_ requests: Int?, per time: Duration) {
        state.withLock { state in
            state.capacity = time
            state.interval = requests.map { time / $0 }
        }
    }

    /// The number of buckets stored at present.
    var count: Int { state.withLock { $0.buckets.count } }

    /// Takes a request out of a bucket, unless the bucket is empty.
    ///
    /// - Parameter factor: The number of requests of this key that count as one.
    /// - Returns: `nil` on success, else the time until the bucket holds a request.
    package func take(from key: Key, factor: Int = 1, at now: MonotonicTime = .now) -> Duration? {
        state.withLock { state in
            guard let interval = state.interval.map({ $0 / factor }) else { return nil }
            let full = max(state.buckets.value(key) ?? now, now) + interval
            let wait = full - now - state.capacity
            guard wait <= .zero else { return wait }
            state.buckets.set(full, for: key)
            return nil
        }
    }
}

extension Problem {
    /// The problem of a caller that exceeds a limit and may retry after `wait`.
    package static func tooManyRequests(kind: String? = nil, _ detail: String, wait: Duration) -> Problem {
        let seconds = max(1, (wait.wholeMilliseconds + 999) / 1000)
        return Problem(
            .tooManyRequests,
            kind: kind,
            "\(detail) Try again in \(seconds) s.",
            headerFields: [.retryAfter: String(seconds)]
        )
    }
}
