internal import EventLoop
internal import FoundationEssentials
internal import KakaoAPI
internal import Logging

/// Sends batches to Kakao: claims what is due, keeps a bounded number under way, and writes down what became of each.
///
/// Any number of servers do this side by side on one database. One that dies leaves its claims behind, and another takes them over
/// when their leases end.
actor BatchSender {
    /// How often it looks without having been woken: for what another server was asked to send, or left behind.
    private static let pollInterval = Duration.seconds(1)
    /// How often it looks for what servers that died have left half done.
    private static let tidyInterval = Duration.seconds(10)
    /// The first wait when a quota is used up; each further one is twice as long.
    private static let shortestQuotaWait = Duration.seconds(60)
    private static let longestQuotaWait = Duration.seconds(3600)
    /// How long a result that cannot be stored is kept and tried again, before the lease would end anyway.
    private static let storeTries = 15

    nonisolated let unownedExecutor: UnownedSerialExecutor
    private let loop: EventLoop
    private let store: BatchStore
    private let push: KakaoPushAPI
    private let version: PushVersion
    private let standing: KakaoStanding
    private let returnURL: String?
    private let limit: Int
    private let logger: Logger
    private let wakeup: Wakeup

    private var rateLimit: RateLimit?
    private var underWay = 0
    private var isStopping = false
    private var quotaWait = BatchSender.shortestQuotaWait
    /// In the loop's milliseconds: nothing is claimed before.
    private var pausedUntil: UInt64 = 0
    private var nextTidy: UInt64 = 0

    /// - Parameters:
    ///   - version: The version that `push` speaks.
    ///   - returnURL: Where Kakao is to report tokens that failed; `nil` for nowhere.
    ///   - limit: Requests under way at a time.
    ///   - requestsPerSecond: Requests begun in a second; `nil` for as many as Kakao takes.
    ///   - wakeup: Signalled when there is something to send.
    init(
        loop: EventLoop,
        store: BatchStore,
        push: KakaoPushAPI,
        version: PushVersion,
        standing: KakaoStanding,
        returnURL: String?,
        limit: Int,
        requestsPerSecond: Int?,
        wakeup: Wakeup,
        logger: Logger
    ) {
        self.loop = loop
        unownedExecutor = loop.asUnownedSerialExecutor()
        self.store = store
        self.push = push
        self.version = version
        self.standing = standing
        self.returnURL = returnURL
        self.limit = limit
        rateLimit = requestsPerSecond.map { RateLimit(perSecond: $0, now: 0) }
        self.logger = logger
        self.wakeup = wakeup
    }

    // MARK: Claiming

    /// Works until it is stopped, and until what is then under way has been answered and written down.
    func run() async {
        await withDiscardingTaskGroup { group in
            while !isStopping {
                await tidyIfDue()
                let claims = await claim()
                underWay += claims.count
                for claim in claims {
                    group.addTask(executorPreference: self.loop) { await self.send(claim) }
                }
                guard !isStopping else { break }
                if claims.isEmpty || underWay >= limit {
                    await wakeup.wait(atMost: waitTime)
                }
            }
        }
    }

    /// Lets ``run()`` end.
    func stop() {
        isStopping = true
        wakeup.signal()
    }

    /// Until something may have changed of which nobody tells: another server's work, or the rate allows another request.
    private var waitTime: Duration {
        guard var rateLimit, rateLimit.available(at: loop.now) == 0 else { return Self.pollInterval }
        return min(rateLimit.wait, Self.pollInterval)
    }

    private func claim() async -> [BatchClaim] {
        let allowed = min(limit - underWay, rateLimit?.available(at: loop.now) ?? .max)
        guard allowed > 0, loop.now >= pausedUntil else { return [] }
        do {
            let claims = try await store.claim(limit: allowed)
            rateLimit?.take(claims.count)
            return claims
        } catch {
            logger.debug("Batches could not be claimed", metadata: ["error": "\(error)"])
            return []
        }
    }

    /// What a server that died may have left: the last batch of a push was finished, and the push was not.
    private func tidyIfDue() async {
        guard loop.now >= nextTidy else { return }
        nextTidy = loop.now + Self.tidyInterval.wholeMilliseconds
        do {
            try await store.abandonUncertain()
            try await store.endFinishedPushes(nil)
        } catch {
            logger.debug("Finished pushes could not be looked up", metadata: ["error": "\(error)"])
        }
    }

    // MARK: Sending

    private func send(_ claim: BatchClaim) async {
        let outcome = await attempt(claim)
        note(outcome)
        await write(outcome, claim)
        underWay -= 1
        wakeup.signal()
    }

    private func attempt(_ claim: BatchClaim) async -> BatchOutcome {
        let message = claim.message.rendered(for: version, returnURL: returnURL)
        do throws(KakaoError) {
            try await push.send(userIDs: claim.userIDs, message: message, bypass: claim.bypass)
            standing.noteAccepted()
            return .sent
        } catch {
            standing.note(error)
            let jitter = Double.random(in: 0.8...1.2)
            return BatchOutcome(error, attempts: claim.attempts, delivery: claim.delivery, jitter: jitter)
        }
    }

    private func note(_ outcome: BatchOutcome) {
        switch outcome {
        case .sent:
            quotaWait = Self.shortestQuotaWait
        case .wait(let error):
            // Every request under way is told the same: they count as one.
            guard loop.now >= pausedUntil else { return }
            let wait = max(quotaWait, min(error.retryAfter ?? .zero, Self.longestQuotaWait))
            pausedUntil = loop.now + wait.wholeMilliseconds
            standing.noteQuotaUsedUp(for: wait)
            quotaWait = min(quotaWait * 2, Self.longestQuotaWait)
            wakeup.signal(after: wait)
            logger.warning(
                "Kakao's quota is used up; the sender waits",
                metadata: ["for": "\(wait)", "kakao": "\(error)"]
            )
        case .retry(let delay, _, _):
            wakeup.signal(after: delay)
        case .halt, .failed, .uncertain:
            break
        }
    }

    /// Writes down what became of a batch. While the database does not answer it is tried again: the lease bounds for how long.
    private func write(_ outcome: BatchOutcome, _ claim: BatchClaim) async {
        for _ in 0..<Self.storeTries {
            do {
                if case .halt(let error) = outcome { try await store.halt(claim.pushID, reason: error.description) }
                try await store.finish(Self.result(outcome, claim))
                if outcome.isFinal { try await store.endFinishedPushes([claim.pushID]) }
                return
            } catch {
                logger.warning(
                    "What became of a batch could not be stored",
                    metadata: ["push": "\(claim.pushID.lowercased)", "batch": "\(claim.number)", "error": "\(error)"]
                )
                // Cancelled when the server has no time left: then the lease ends by itself.
                guard (try? await loop.sleep(for: .seconds(1))) != nil else { return }
            }
        }
    }

    private static func result(_ outcome: BatchOutcome, _ claim: BatchClaim) -> BatchStore.Result {
        var result: BatchStore.Result
        switch outcome {
        case .sent:
            result = BatchStore.Result(claim: claim, state: "sent")
            result.status = 200
        case .retry(let delay, let mayRepeat, let error):
            result = BatchStore.Result(claim: claim, state: "waiting")
            result.delay = delay
            result.mayRepeat = mayRepeat
            result.note(error)
        case .wait(let error), .halt(let error):
            result = BatchStore.Result(claim: claim, state: "waiting")
            result.countsAttempt = false
            result.note(error)
        case .failed(let error):
            result = BatchStore.Result(claim: claim, state: "failed")
            result.mayRepeat = error.bodyBytesLeft && error.status == nil
            result.note(error)
        case .uncertain(let error):
            result = BatchStore.Result(claim: claim, state: "uncertain")
            result.note(error)
        }
        return result
    }
}

extension BatchOutcome {
    /// Whether nothing more is done for the batch.
    fileprivate var isFinal: Bool {
        switch self {
        case .sent, .failed, .uncertain: true
        case .retry, .wait, .halt: false
        }
    }
}

extension BatchStore.Result {
    fileprivate mutating func note(_ error: KakaoError) {
        status = error.status
        guard case .refused(_, let code, let text) = error.kind else {
            message = error.description
            return
        }
        self.code = code?.rawValue
        message = text
    }
}

extension KakaoError {
    /// The status that Kakao answered, if it did.
    fileprivate var status: Int? {
        guard case .refused(let status, _, _) = kind else { return nil }
        return status
    }
}
