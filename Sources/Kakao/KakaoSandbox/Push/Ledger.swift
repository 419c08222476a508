import KakaoAPI
import Locking

/// The sandbox's state: tokens, deliveries, and how often each user was reached. Each part is bounded.
///
/// The event loops of the sandbox and the tests share one lock, which is usually held for microseconds.
final class Ledger: Sendable {
    fileprivate struct State {
        var tokens: TokenRegistry
        var log: RecentLog<Delivery>
        /// The number of deliveries by outcome.
        var outcomes: [Delivery.Outcome: Int] = [:]
        var reach: ReachCounter
        var failingTokens: Set<String> = []
        var sends = 0
        var users = 0
        /// The number of milliseconds by which Kakao's clock is ahead of this machine's.
        var clockOffset: Int64 = 0

        /// The time by Kakao's clock, in Unix milliseconds.
        var now: Int64 { WallClock.unixMilliseconds + clockOffset }
    }

    /// A token that failed, and the URL for its failure report.
    struct Failure: Sendable {
        let userID: Int64
        let pushToken: String
        let returnURL: String
        /// The time in Unix milliseconds.
        let failedAt: Int64
    }

    static let maximumFailingTokens = 100_000
    /// The maximum total advance of the clock: 100 years.
    static let maximumClockSeconds: Int64 = 36_500 * 86_400

    private let state: Locked<State>

    init(_ settings: KakaoSandboxSettings) {
        state = Locked(
            State(
                tokens: TokenRegistry(
                    maximumTokens: settings.maximumTokens,
                    lifetimeDays: settings.tokenLifetimeDays
                ),
                log: RecentLog(capacity: settings.maximumDeliveries),
                reach: ReachCounter(maximumUsers: settings.maximumReached)
            )
        )
    }

    // MARK: The Push API

    /// Registers the token of a device.
    ///
    /// - Throws: ``KakaoRefusal`` with code -1 if a limit on tokens is reached.
    func register(_ key: DeviceKey, userID: Int64, pushToken: String) throws(KakaoRefusal) {
        let isStored = state.withLock {
            $0.tokens.register(key, userID: userID, pushToken: pushToken, now: $0.now)
        }
        guard isStored else { throw .full("the sandbox has reached its limit of tokens") }
    }

    func deregister(_ key: DeviceKey, userID: Int64) {
        state.withLock { $0.tokens.deregister(key, userID: userID) }
    }

    func tokens(of userID: Int64) -> [TokenRegistry.Token] {
        state.withLock { $0.tokens.tokens(of: userID, now: $0.now) }
    }

    /// Delivers a send to every device of every user.
    ///
    /// - Returns: The failures that have a `return_url`.
    func carryOut(_ send: PushSend) -> [Failure] {
        state.withLock { state in
            let now = state.now
            state.sends += 1
            state.users += send.userIDs.count
            state.reach.count(send.userIDs, marker: send.message.marker)
            var failures: [Failure] = []
            for userID in send.userIDs { state.deliver(send, to: userID, at: now, &failures) }
            return failures
        }
    }

    // MARK: Controls

    /// The time by Kakao's clock, in Unix milliseconds.
    var now: Int64 { state.withLock { $0.now } }

    /// Advances Kakao's clock, by at most 100 years in total; `nil` resets it to this machine's time.
    ///
    /// - Returns: The new time by Kakao's clock, in Unix milliseconds.
    @discardableResult
    func moveClock(bySeconds seconds: Int64?) -> Int64 {
        state.withLock { state in
            let seconds = seconds.map { state.clockOffset / 1000 + min(max($0, 0), Self.maximumClockSeconds) }
            state.clockOffset = min(seconds ?? 0, Self.maximumClockSeconds) * 1000
            return state.now
        }
    }

    /// Makes all further sends to a token fail. Returns `false` if ``maximumFailingTokens`` is reached.
    func failToken(_ pushToken: String) -> Bool {
        state.withLock {
            guard $0.failingTokens.count < Self.maximumFailingTokens else { return false }
            $0.failingTokens.insert(pushToken)
            return true
        }
    }

    func healTokens() {
        state.withLock { $0.failingTokens.removeAll() }
    }

    func deliveries(to userID: Int64?, after: Int, limit: Int) -> [Delivery] {
        state.withLock { $0.log.page(after: after, limit: limit) { userID == nil || $0.userID == userID } }
    }

    func reachSummaries() -> [ReachSummary] {
        state.withLock { $0.reach.summaries }
    }

    func reachSummary(of marker: String) -> ReachSummary {
        state.withLock { $0.reach.summary(of: marker) }
    }

    func timesReached(_ userID: Int64, marker: String) -> Int {
        state.withLock { $0.reach.times(userID, marker: marker) }
    }

    /// Returns users after `after` that were reached at least `minimumTimes` times, by ascending id.
    ///
    /// Scans all users of the marker with the lock held, which takes about 100 ms for ten million users. Do not call it
    /// on an event loop.
    func reached(marker: String, minimumTimes: Int, after: Int64, limit: Int) -> [(userID: Int64, times: Int)] {
        state.withLock { $0.reach.page(of: marker, minimumTimes: minimumTimes, after: after, limit: limit) }
    }

    /// Clears the deliveries and their counts. Tokens are kept.
    func deleteDeliveries() {
        state.withLock {
            $0.log.removeAll()
            $0.outcomes = [:]
            $0.reach.removeAll()
            $0.sends = 0
            $0.users = 0
        }
    }

    /// Adds the counts of all parts of the ledger.
    func addCounts(to stats: inout SandboxStats) {
        state.withLock { state in
            stats.sends = state.sends
            stats.users = state.users
            stats.deliveries = state.outcomes
            stats.tokens = state.tokens.count
            stats.failingTokens = state.failingTokens.count
            stats.uncounted = state.reach.uncounted
        }
    }
}

extension Ledger.State {
    /// A device of a user, or only the token for it that the message carries (`bypass`).
    private typealias Target = (pushType: PushType, deviceID: String?, pushToken: String)

    /// Returns the devices of a user, or the token for each platform that the message carries.
    private func targets(of send: PushSend, to userID: Int64, at now: Int64) -> [Target] {
        guard send.isBypass else {
            return tokens.tokens(of: userID, now: now).map { ($0.key.pushType, $0.key.deviceID, $0.pushToken) }
        }
        return PushType.allCases.compactMap { pushType in
            send.message.payload(for: pushType)?.pushToken.map { (pushType, nil, $0) }
        }
    }

    /// Delivers a send to every device of a user.
    fileprivate mutating func deliver(
        _ send: PushSend,
        to userID: Int64,
        at now: Int64,
        _ failures: inout [Ledger.Failure]
    ) {
        let targets = targets(of: send, to: userID, at: now)
        for target in targets {
            let payload = send.message.payload(for: target.pushType)
            let outcome = outcome(of: payload, to: target.pushToken)
            if outcome == .failed, let returnURL = payload?.returnURL {
                let pushToken = target.pushToken
                failures.append(
                    Ledger.Failure(userID: userID, pushToken: pushToken, returnURL: returnURL, failedAt: now)
                )
            }
            append(send, to: userID, target, outcome, at: now)
        }
        if targets.isEmpty, !send.isBypass { append(send, to: userID, nil, .noDevice, at: now) }
    }

    private func outcome(of payload: PushMessage.Payload?, to pushToken: String) -> Delivery.Outcome {
        guard let payload else { return .noMessage }
        if payload.isDryRun { return .dryRun }
        return failingTokens.contains(pushToken) ? .failed : .delivered
    }

    private mutating func append(
        _ send: PushSend,
        to userID: Int64,
        _ target: Target?,
        _ outcome: Delivery.Outcome,
        at now: Int64
    ) {
        outcomes[outcome, default: 0] += 1
        log.append(
            Delivery(
                sequence: log.nextSequence,
                send: sends,
                deliveredAt: now,
                userID: userID,
                outcome: outcome,
                pushType: target?.pushType.name(in: send.version),
                deviceID: target?.deviceID,
                pushToken: target?.pushToken,
                payload: target.flatMap { send.message.payload(for: $0.pushType)?.json }
            )
        )
    }
}
