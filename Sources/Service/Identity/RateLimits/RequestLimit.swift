import EventLoop
import HTTPServer
import HTTPTypes
import Locking
import Runtime

/// A limit of requests a minute for each key, such as a user or an address. Shared by all event loops of a server, but
/// not between servers.
///
/// Each key has a token bucket that holds the requests of one minute and fills evenly. The bucket is stored as a single
/// point in time: when it will be full (the generic cell rate algorithm, ITU-T I.371 §A). An evicted bucket counts as
/// full. Therefore only a bounded number is stored, those used last, and a request costs the same short time whatever
/// the number of callers.
final class RequestLimit<Key: Hashable & Sendable>: Sendable {
    /// The capacity of a bucket, as the time in which it fills.
    private static var capacity: Duration { .seconds(60) }
    /// The maximum number of buckets stored: a few megabytes.
    static var maximumBuckets: Int { 65_536 }

    private struct State {
        /// The time in which a bucket gains one request; `nil` for no limit.
        var interval: Duration?
        /// When each bucket will be full.
        var buckets = LRUCache<Key, MonotonicTime>(limit: RequestLimit.maximumBuckets)
    }

    private let state = Locked(State())

    /// - Parameter perMinute: 1 or more; `nil` for no limit.
    init(perMinute: Int?) {
        apply(perMinute: perMinute)
    }

    /// Sets another limit for further requests: 1 or more, or `nil` for none.
    func apply(perMinute: Int?) {
        state.withLock { $0.interval = perMinute.map { Self.capacity / $0 } }
    }

    /// The number of buckets stored at present.
    var count: Int { state.withLock { $0.buckets.count } }

    /// Takes a request out of a bucket, unless the bucket is empty.
    ///
    /// - Returns: `nil` on success, else the time until the bucket holds a request.
    func take(from key: Key, at now: MonotonicTime = .now) -> Duration? {
        state.withLock { state in
            guard let interval = state.interval else { return nil }
            let full = max(state.buckets.value(key) ?? now, now) + interval
            let wait = full - now - Self.capacity
            guard wait <= .zero else { return wait }
            state.buckets.set(full, for: key)
            return nil
        }
    }
}

extension Problem {
    /// The problem of a caller that exceeds a limit and may retry after `wait`.
    static func tooManyRequests(kind: String? = nil, _ detail: String, wait: Duration) -> Problem {
        let seconds = max(1, (wait.wholeMilliseconds + 999) / 1000)
        return Problem(
            .tooManyRequests,
            kind: kind,
            "\(detail) Try again in \(seconds) s.",
            headerFields: [.retryAfter: String(seconds)]
        )
    }
}
