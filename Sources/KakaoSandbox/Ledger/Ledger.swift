internal import Locking

/// What the sandbox knows: tokens, what was delivered, and who was reached how often. Bounded in every part.
///
/// One lock, held for microseconds: the loops of the sandbox and the tests that ask it share it.
final class Ledger: Sendable {
    fileprivate struct State {
        var tokens: TokenRegistry
        var log: DeliveryLog
        var reach: ReachCounter
        var failingTokens: Set<String> = []
        var sends = 0
        var users = 0
        /// How far Kakao's clock is ahead of this machine's, in milliseconds.
        var clockOffset: Int64 = 0

        /// Unix milliseconds by Kakao's clock.
        var now: Int64 { WallClock.unixMilliseconds + clockOffset }
    }

    /// A token that failed, and where its failure is to be reported.
    struct Failure: Sendable {
        let userID: Int64
        let pushToken: String
        let returnURL: String
        /// Unix milliseconds.
        let failedAt: Int64
    }

    /// What a count of everything says.
    struct Counts {
        let tokens: Int
        let failingTokens: Int
        let sends: Int
        let users: Int
        let deliveries: [Delivery.Outcome: Int]
        let uncounted: Int
    }

    static let maximumFailingTokens = 100_000
    /// 100 years.
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

    /// - Throws: ``KakaoRefusal``, -1, when there is no room.
    func register(_ key: DeviceKey, userID: Int64, pushToken: String) throws(KakaoRefusal) {
        let isStored = state.withLock {
            $0.tokens.register(key, userID: userID, pushToken: pushToken, now: $0.now)
        }
        guard isStored else {
            throw KakaoRefusal(status: 400, code: -1, message: "the sandbox has no room for a token")
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
    /// - Returns: The failures that somebody wants to hear of.
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

    /// Puts the clock forward, by 100 years over all at most; to this machine's time for `nil`.
    ///
    /// - Returns: Unix milliseconds by the clock then.
    @discardableResult
    func moveClock(bySeconds seconds: Int64?) -> Int64 {
        state.withLock { state in
            let seconds = seconds.map { state.clockOffset / 1000 + min(max($0, 0), Self.maximumClockSeconds) }
            state.clockOffset = min(seconds ?? 0, Self.maximumClockSeconds) * 1000
            return state.now
        }
    }

    /// Has sends to a token fail from now on, if there is still room for one.
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

    /// Looks at every user of the marker with the lock held: some 100 ms for ten million. Not to be called on a loop.
    func reached(marker: String, minimumTimes: Int, after: Int64, limit: Int) -> [(userID: Int64, times: Int)] {
        state.withLock { $0.reach.page(of: marker, minimumTimes: minimumTimes, after: after, limit: limit) }
    }

    /// Forgets what was delivered to whom, and keeps the tokens.
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
            deliver(send, userID: userID, device.key.platform, device.key.deviceID, device.pushToken, now, &failures)
        }
        if devices.isEmpty { append(send, userID: userID, .noDevice, nil, nil, nil, now) }
    }

    /// With `bypass` the message carries the token itself, one for each platform.
    fileprivate mutating func deliverToGivenTokens(
        _ send: PushSend,
        userID: Int64,
        now: Int64,
        _ failures: inout [Ledger.Failure]
    ) {
        for platform in Platform.allCases {
            guard let pushToken = send.message.payload(for: platform)?.pushToken else { continue }
            deliver(send, userID: userID, platform, nil, pushToken, now, &failures)
        }
    }

    private mutating func deliver(
        _ send: PushSend,
        userID: Int64,
        _ platform: Platform,
        _ deviceID: String?,
        _ pushToken: String,
        _ now: Int64,
        _ failures: inout [Ledger.Failure]
    ) {
        let payload = send.message.payload(for: platform)
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
        append(send, userID: userID, outcome, platform, deviceID, pushToken, now)
    }

    private mutating func append(
        _ send: PushSend,
        userID: Int64,
        _ outcome: Delivery.Outcome,
        _ platform: Platform?,
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
                pushType: platform?.name(in: send.version),
                deviceID: deviceID,
                pushToken: pushToken,
                payload: platform.flatMap { send.message.payload(for: $0)?.json }
            )
        )
    }
}
