import KakaoAPI
import Locking

/// The sandbox's state: tokens, deliveries, and how often each user was reached. Each part is bounded.
///
/// The event loops of the sandbox and the tests share one lock, which is usually held for microseconds.
final class Ledger: Sendable {
    fileprivate struct State {
        var tokens: TokenRegistry
        var log: DeliveryLog
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

    /// The counts of all parts of the ledger.
    struct Counts {
        let tokens: Int
        let failingTokens: Int
        let sends: Int
        let users: Int
        let deliveries: [Delivery.Outcome: Int]
        let uncounted: Int
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
                log: DeliveryLog(capacity: settings.maximumDeliveries),
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
        guard isStored else {
            throw KakaoRefusal(status: 400, code: -1, message: "the sandbox has reached its limit of tokens")
        }
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
            for userID in send.userIDs {
                if send.isBypass {
                    state.deliverToGivenTokens(send, userID: userID, now: now, &failures)
                } else {
                    state.deliverToDevices(send, userID: userID, now: now, &failures)
                }
            }
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
        state.withLock { $0.log.page(of: userID, after: after, limit: limit) }
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
    func forgetDeliveries() {
        state.withLock {
            $0.log.removeAll()
            $0.reach.removeAll()
            $0.sends = 0
            $0.users = 0
        }
    }

    func counts() -> Counts {
        state.withLock {
            Counts(
                tokens: $0.tokens.count,
                failingTokens: $0.failingTokens.count,
                sends: $0.sends,
                users: $0.users,
                deliveries: $0.log.counts,
                uncounted: $0.reach.uncounted
            )
        }
    }
}

extension Ledger.State {
    fileprivate mutating func deliverToDevices(
        _ send: PushSend,
        userID: Int64,
        now: Int64,
        _ failures: inout [Ledger.Failure]
    ) {
        let devices = tokens.tokens(of: userID, now: now)
        for device in devices {
            deliver(send, userID: userID, device.key.pushType, device.key.deviceID, device.pushToken, now, &failures)
        }
        if devices.isEmpty { append(send, userID: userID, .noDevice, nil, nil, nil, now) }
    }

    /// Delivers a send with `bypass`, whose message carries one token for each platform.
    fileprivate mutating func deliverToGivenTokens(
        _ send: PushSend,
        userID: Int64,
        now: Int64,
        _ failures: inout [Ledger.Failure]
    ) {
        for pushType in PushType.allCases {
            guard let pushToken = send.message.payload(for: pushType)?.pushToken else { continue }
            deliver(send, userID: userID, pushType, nil, pushToken, now, &failures)
        }
    }

    private mutating func deliver(
        _ send: PushSend,
        userID: Int64,
        _ pushType: PushType,
        _ deviceID: String?,
        _ pushToken: String,
        _ now: Int64,
        _ failures: inout [Ledger.Failure]
    ) {
        let payload = send.message.payload(for: pushType)
        let outcome: Delivery.Outcome
        if payload == nil {
            outcome = .noMessage
        } else if payload?.isDryRun == true {
            outcome = .dryRun
        } else if failingTokens.contains(pushToken) {
            outcome = .failed
            if let returnURL = payload?.returnURL {
                failures.append(
                    Ledger.Failure(userID: userID, pushToken: pushToken, returnURL: returnURL, failedAt: now)
                )
            }
        } else {
            outcome = .delivered
        }
        append(send, userID: userID, outcome, pushType, deviceID, pushToken, now)
    }

    private mutating func append(
        _ send: PushSend,
        userID: Int64,
        _ outcome: Delivery.Outcome,
        _ pushType: PushType?,
        _ deviceID: String?,
        _ pushToken: String?,
        _ now: Int64
    ) {
        log.append(
            Delivery(
                sequence: log.nextSequence,
                send: sends,
                deliveredAt: now,
                userID: userID,
                outcome: outcome,
                pushType: pushType?.name(in: send.version),
                deviceID: deviceID,
                pushToken: pushToken,
                payload: pushType.flatMap { send.message.payload(for: $0)?.json }
            )
        )
    }
}
