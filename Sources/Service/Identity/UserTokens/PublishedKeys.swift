import Crypto
import EventLoop
import HTTPClient
package import HTTPServer
import Locking
import Logging
import Runtime

/// The keys that an issuer publishes at a URL (JWKS). Shared by all event loops.
///
/// They are fetched when a token names an unknown key. They are also fetched when a token arrives after the refresh
/// interval, so that a key that the issuer has withdrawn is not trusted for longer. Fetches are at least `interval`
/// apart, or a quarter of it for account events, since Kakao blocks clients that ask too often. While fetches fail, the
/// keys of the last successful fetch remain in use.
final class PublishedKeys: Sendable {
    /// The timeout of a fetch that a token's verification depends on: a phone waits for it.
    private static let timeout = Duration.seconds(5)
    /// The timeout of a refresh of known keys, and of a fetch for an account event: Kakao waits 3 s for the response.
    private static let refreshTimeout = Duration.seconds(2)
    /// The divisor of the interval for account events. Kakao sends an event only once, so its key is fetched sooner.
    private static let accountEventDivisor = 4

    private struct State: Sendable {
        var keys: KeySet?
        /// When the last fetch began.
        var lastFetch: MonotonicTime?
        /// When the fetch of `keys` began.
        var keysFetch: MonotonicTime?
        var hasFailed = false

        func isDue(_ interval: Duration, at now: MonotonicTime) -> Bool {
            lastFetch.map { now - $0 >= interval } ?? true
        }
    }

    private let url: String
    private let avoidsProxy: Bool
    private let interval: Duration
    private let refreshInterval: Duration
    private let logger: Logger
    private let state = Locked(State())
    private let fetches = SingleFlight<String, Bool>(limit: 1)

    /// - Parameters:
    ///   - url: The URL of the keys.
    ///   - avoidsProxy: Whether they are fetched directly, since the proxy is for Kakao.
    ///   - interval: The minimum time between two fetches.
    ///   - refreshInterval: The time after which known keys are fetched again.
    init(url: String, avoidsProxy: Bool, interval: Duration, refreshInterval: Duration, logger: Logger) {
        self.url = url
        self.avoidsProxy = avoidsProxy
        self.interval = interval
        self.refreshInterval = refreshInterval
        self.logger = logger
    }

    /// Returns the key with a `kid`; `nil` if the issuer has none, according to a fetch since the token arrived.
    ///
    /// - Parameters:
    ///   - arrival: When the token arrived.
    ///   - isUrgent: Whether the token arrives only once.
    ///   - client: The client of `loop`.
    ///   - loop: The caller's event loop.
    /// - Throws: ``UndecidedKey``
    func key(
        _ keyID: String,
        since arrival: MonotonicTime,
        isUrgent: Bool,
        _ client: HTTPClient,
        on loop: EventLoop
    ) async throws(UndecidedKey) -> VerificationKey? {
        let interval = isUrgent ? interval / Self.accountEventDivisor : interval
        if isStale(at: .now) {
            _ = await fetches.answer(to: url, on: loop) {
                await self.fetch(client, timeout: Self.refreshTimeout) { self.isStale($0, at: .now) }
            }
        }
        // A fetch in flight may have been begun by a caller with other conditions.
        let isOwn = Locked(false)
        while true {
            if let key = known(keyID) { return key }
            guard !isOwn.withLock({ $0 }) else { break }
            _ = await fetches.answer(to: url, on: loop) {
                isOwn.withLock { $0 = true }
                return await self.fetch(client, timeout: isUrgent ? Self.refreshTimeout : Self.timeout) {
                    $0.keys?.key(keyID) == nil && $0.isDue(interval, at: .now)
                }
            }
        }
        let (hasFailed, lastFetch) = state.withLock { ($0.hasFailed, $0.lastFetch) }
        guard let lastFetch, hasFailed || lastFetch < arrival else { return nil }
        let rest = interval - (MonotonicTime.now - lastFetch)
        throw UndecidedKey(isUnreachable: hasFailed, retrySeconds: max(1, rest.components.seconds + 1))
    }

    private func known(_ keyID: String) -> VerificationKey? {
        state.withLock { $0.keys?.key(keyID) }
    }

    private func isStale(at now: MonotonicTime) -> Bool {
        state.withLock { isStale($0, at: now) }
    }

    private func isStale(_ state: State, at now: MonotonicTime) -> Bool {
        guard let keysFetch = state.keysFetch, now - keysFetch >= refreshInterval else { return false }
        return state.isDue(interval, at: now)
    }

    /// Fetches the keys if `isTime` returns true. Returns whether it did.
    private func fetch(_ client: HTTPClient, timeout: Duration, if isTime: (State) -> Bool) async -> Bool {
        let start: MonotonicTime? = state.withLock { state in
            guard isTime(state) else { return nil }
            let now = MonotonicTime.now
            state.lastFetch = now
            return now
        }
        guard let start else { return false }
        var reason: String
        do throws(HTTPClientError) {
            let request = HTTPClientRequest(url: url, totalTimeout: timeout, avoidsProxy: avoidsProxy)
            let response = try await client.send(request)
            if response.status == 200, let keys = KeySet(json: response.body), !keys.isEmpty {
                state.withLock { state in
                    state.keys = keys
                    state.keysFetch = start
                    state.hasFailed = false
                }
                return true
            }
            reason = "status \(response.status), response without usable keys"
        } catch {
            reason = "\(error)"
        }
        state.withLock { $0.hasFailed = true }
        logger.warning("Token key fetch failed", metadata: ["address": "\(url)", "error": "\(reason)"])
        return true
    }
}

/// A key that is not known, although the issuer may have published it since the last fetch.
package struct UndecidedKey: Error {
    /// Whether the keys cannot be fetched. Otherwise they were fetched a moment ago, for another token.
    package let isUnreachable: Bool
    /// The time after which they may be fetched again.
    package let retrySeconds: Int64

    /// The problem of a caller whose token names the key. It is 503 only if the keys cannot be fetched, so that strangers with invented
    /// tokens do not look like an outage.
    package var problem: Problem {
        guard !isUnreachable else { return .identityUnavailable(retrySeconds: retrySeconds) }
        return .tooManyRequests(
            "The token's key is unknown, and the keys were fetched a moment ago for another token.",
            wait: .seconds(retrySeconds)
        )
    }
}
