internal import EventLoop
internal import HTTPServer
internal import HTTPTypes
internal import Locking

/// So many requests a minute of each of many, who are told apart by a key: shared by all loops of a server, and of this server only.
///
/// Each has a token bucket that holds the requests of a minute and fills evenly, kept as a single point in time (the generic cell rate
/// algorithm, ITU-T I.371 §A): when it would be full. A bucket that is forgotten is full; so no more than a bounded number is remembered,
/// of those who called last, and a request costs the same short time however many call.
final class RequestLimit<Key: Hashable & Sendable>: Sendable {
    /// What a bucket holds: the requests of so long.
    private static var capacity: Duration { .seconds(60) }
    /// Buckets that are remembered: some megabytes.
    static var maximumBuckets: Int { 65_536 }

    /// The time in which one request comes to a bucket.
    private let interval: Duration
    /// When each bucket is full.
    private let buckets = Locked(LRUCache<Key, MonotonicTime>(limit: RequestLimit.maximumBuckets))

    /// - Parameter perMinute: 1 or more.
    init(perMinute: Int) {
        interval = Self.capacity / perMinute
    }

    /// How many buckets are remembered.
    var count: Int { buckets.withLock { $0.count } }

    /// Takes a request out of a bucket. If it holds none nothing is taken.
    ///
    /// - Returns: `nil`, or the time until it holds one.
    func take(from key: Key, at now: MonotonicTime = .now) -> Duration? {
        buckets.withLock { buckets in
            let full = max(buckets.value(key) ?? now, now) + interval
            let wait = full - now - Self.capacity
            guard wait <= .zero else { return wait }
            buckets.set(full, for: key)
            return nil
        }
    }
}

extension Problem {
    /// Whoever calls does so too often, and may come again after `wait`.
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
