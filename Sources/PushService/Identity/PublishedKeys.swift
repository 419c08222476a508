internal import EventLoop
internal import HTTPClient
internal import HTTPServer
internal import Locking
internal import Logging

/// The keys that an issuer publishes at an address (JWKS): shared by all loops.
///
/// They are fetched when a token names one that is not known, and no more often than the interval says, since Kakao shuts out who asks
/// too often. The keys that were fetched last go on serving when a fetch fails.
final class PublishedKeys: Sendable {
    /// How long a fetch may take: a phone waits for it.
    private static let timeout = Duration.seconds(5)

    private struct State: Sendable {
        var keys: KeySet?
        var lastFetch: ContinuousClock.Instant?
        var hasFailed = false
    }

    private let url: String
    private let interval: Duration
    private let logger: Logger
    private let state = Locked(State())
    private let fetches = SharedQuestions<String, Bool>(limit: 1)

    /// - Parameters:
    ///   - url: Where the keys are.
    ///   - interval: The least time between two fetches.
    init(url: String, interval: Duration, logger: Logger) {
        self.url = url
        self.interval = interval
        self.logger = logger
    }

    /// The key of a `kid`; `nil` if the issuer has none.
    ///
    /// - Parameters:
    ///   - client: Of `loop`.
    ///   - loop: The calling one.
    /// - Throws: ``Problem`` 503 when the keys cannot be fetched.
    func key(_ keyID: String, _ client: HTTPClient, on loop: EventLoop) async throws -> VerificationKey? {
        if let key = known(keyID) { return key }
        _ = await fetches.answer(to: url, on: loop) { await self.fetch(unlessKnown: keyID, client) }
        if let key = known(keyID) { return key }
        let (hasFailed, lastFetch) = state.withLock { ($0.hasFailed, $0.lastFetch) }
        guard hasFailed, let lastFetch else { return nil }
        let rest = interval - (ContinuousClock.now - lastFetch)
        throw Problem.identityUnavailable(retrySeconds: max(1, rest.components.seconds + 1))
    }

    private func known(_ keyID: String) -> VerificationKey? {
        state.withLock { $0.keys?.key(keyID) }
    }

    /// Fetches the keys, if it is time. Returns whether it did.
    private func fetch(unlessKnown keyID: String, _ client: HTTPClient) async -> Bool {
        let isTime = state.withLock { state in
            guard state.keys?.key(keyID) == nil else { return false }
            let now = ContinuousClock.now
            if let last = state.lastFetch, now - last < interval { return false }
            state.lastFetch = now
            return true
        }
        guard isTime else { return false }
        var reason: String
        do throws(HTTPClientError) {
            let response = try await client.send(HTTPClientRequest(url: url, totalTimeout: Self.timeout))
            if response.status == 200, let keys = KeySet(json: response.body), !keys.isEmpty {
                state.withLock { state in
                    state.keys = keys
                    state.hasFailed = false
                }
                return true
            }
            reason = "the answer was \(response.status), without keys that can be used"
        } catch {
            reason = "\(error)"
        }
        state.withLock { $0.hasFailed = true }
        logger.warning("The keys of tokens cannot be fetched", metadata: ["address": "\(url)", "error": "\(reason)"])
        return true
    }
}
