import DequeModule
import Endpoints
import EventLoop
import FoundationEssentials
import KakaoAPI
import Logging
import Postgres
import Runtime
import ServiceLifecycle

/// Sends stored messages: claims receivers that are due, makes a bounded number of requests at a time, and stores what
/// became of each receiver.
///
/// Any number of servers send concurrently from one database. Receivers are claimed under a lease (``WorkQueue``) together
/// with their reservation of the quotas, just before the request: nobody knows what became of the claims of a server that
/// stops.
actor MessageSender: Service {
    /// The maximum number of requests at a time.
    private static let maxRequestsInFlight = 16
    /// The maximum number of friends lists that are read at a time.
    private static let maxConcurrentResolutions = 4
    /// The number of results waiting to be stored at which nothing more is claimed.
    private static let maxPendingWrites = 1000
    /// The number of messages without open receivers that are found at a time.
    private static let maxFinishedPerSearch = 1000
    /// The number of messages that expire in one statement. With 10,000 receivers each, they take most of a second.
    private static let maxExpiredPerStatement = 10
    /// The time for a commit, in milliseconds.
    private static let commitMilliseconds: UInt64 = 50
    /// The interval in milliseconds at which a server looks for messages that begin within seconds.
    private static let searchMilliseconds: UInt64 = 1000

    nonisolated let unownedExecutor: UnownedSerialExecutor
    private let loop: EventLoop
    private let store: MessageStore
    private let courier: MessageCourier
    private let friends: FriendsLists
    private let availability: KakaoAvailability
    private let notices: MessageNotices
    private var signal: Signal { notices.signal }
    /// The receivers by final state.
    private let receivers: LoopCounts<ReceiverState>.Own
    private let work: WorkQueue
    private let logger: Logger

    private let requestsPerSecond: Int
    private let stateDirectory: String?
    private var rateLimit: RateLimit
    private var ready: Deque<ReceiverBatch> = []
    private var inFlight = 0
    private var pendingWrites = 0
    private var resolving = 0
    /// The messages that may have no open receivers left.
    private var possiblyFinished: Set<UUID> = []
    /// The receivers whom this server has reached, in case PostgreSQL loses their results.
    private var known = KnownReceivers()
    /// Whether nothing is sent because `known` is being compared with the database.
    private var isRestoring = false
    /// The number of comparisons that have begun: what was claimed before one may be lost.
    private var restorations = 0
    private var isStopping = false
    private var whenIdle: CheckedContinuation<Void, Never>?
    /// Whether there was anything to do for any server when the lease was last renewed.
    private var hasWork = false
    // When to look for receivers, and for messages to end and to resolve, by the loop's clock in milliseconds.
    private var nextClaim: UInt64 = 0
    private var nextSearch: UInt64 = 0

    /// - Parameter stateDirectory: A directory that outlives the process, for its last claim; `nil` for none.
    init(
        store: MessageStore,
        courier: MessageCourier,
        friends: FriendsLists,
        availability: KakaoAvailability,
        requestsPerSecond: Int,
        commits: LostCommits,
        stateDirectory: String?,
        intervals: WorkIntervals,
        notices: MessageNotices,
        receivers: LoopCounts<ReceiverState>.Own,
        progress: WorkProgress,
        logger: Logger
    ) {
        loop = store.pool.loop
        unownedExecutor = loop.asUnownedSerialExecutor()
        self.store = store
        self.courier = courier
        self.friends = friends
        self.availability = availability
        self.notices = notices
        self.receivers = receivers
        self.logger = logger
        self.requestsPerSecond = requestsPerSecond
        self.stateDirectory = stateDirectory
        rateLimit = RateLimit(perSecond: requestsPerSecond, now: 0)
        work = WorkQueue(
            loop: loop,
            store: store,
            commits: commits,
            intervals: intervals,
            progress: progress,
            logger: logger
        )
    }

    // MARK: Life

    /// Runs until the server shuts down, the requests in flight have completed, and their results are stored.
    func run() async {
        await withGracefulShutdownHandler {
            await withTaskCancellationHandler {
                await sendUntilStopped()
            } onCancel: {
                loop.execute { self.assumeIsolated { $0.work.stopRetryingWrites() } }
            }
        } onGracefulShutdown: {
            self.loop.execute { self.assumeIsolated { $0.stop() } }
        }
    }

    private func sendUntilStopped() async {
        await work.openClaimFile(in: stateDirectory) { isStopping }
        let leasing = Task(executorPreference: loop) { await self.keepLease() }
        while !isStopping {
            await pass()
            guard !isStopping else { break }
            await signal.wait(atMost: waitTime)
        }
        releaseReady()
        await becomeIdle()
        try? await finishMessages()
        leasing.cancel()
        await leasing.value
        await work.releaseLease {
            try await reconcile()
            await becomeIdle()
        }
    }

    private func stop() {
        isStopping = true
        signal.send()
    }

    private func pass() async {
        do {
            if notices.drainNotifications() { searchNow() }
            if work.lease != nil {
                if isBusy { try await maintain() }
                if loop.now >= nextSearch {
                    nextSearch = .max
                    try await expireMessages()
                    try await resolveReceivers()
                }
                if loop.now >= nextClaim {
                    nextClaim = .max
                    while !isStopping, try await claim() {}
                }
            }
            try await finishMessages()
        } catch {
            nextClaim = work.recordFailedPass(error)
            nextSearch = nextClaim
        }
        dispatch()
    }

    private func maintain() async throws {
        if try await work.reclaimExpired() {
            searchNow()
            possiblyFinished.formUnion(
                try await store.pool.read(FindFinishedMessages(limit: Self.maxFinishedPerSearch))
            )
        }
        if work.needsReconciliation {
            try await reconcile()
            nextClaim = 0
        }
    }

    private func keepLease() async {
        await work.keepLease { change in
            switch change {
            case .acquired:
                searchNow()
            case .renewed(let hasWork):
                // Messages that begin or end within seconds, or whose notification was lost.
                self.hasWork = hasWork
                if hasWork {
                    nextSearch = min(nextSearch, loop.now + Self.searchMilliseconds)
                    nextClaim = min(nextClaim, loop.now + Self.searchMilliseconds)
                }
                if ready.isEmpty, inFlight == 0 { work.progress.recordSuccess() }
                signal.send()
            case .lost:
                logger.warning("Lease lost: another server has reclaimed the receivers of this one")
                for batch in ready { for claim in batch.receivers { work.untrack(claim.id) } }
                ready = []
            }
        }
    }

    private func reconcile() async throws {
        for claim in try await work.reconcile(store.open, \.id) { record(.notSent, of: claim) }
    }

    /// Stores again which receivers this server has reached, where PostgreSQL has lost that. Waits until the requests in flight
    /// have completed.
    ///
    /// - Parameter report: Records how many results are missing.
    func restoreReceivers(_ report: LostCommits.Report) async throws {
        isRestoring = true
        restorations += 1
        defer {
            isRestoring = false
            searchNow()
        }
        // Their claims may be lost.
        releaseReady()
        while inFlight + pendingWrites > 0 { try await loop.sleep(for: .milliseconds(20)) }
        try await store.restore(known, report)
    }

    private func becomeIdle() async {
        if inFlight + pendingWrites + resolving > 0 { await withCheckedContinuation { whenIdle = $0 } }
    }

    private func resumeWhenIdle() {
        guard inFlight + pendingWrites + resolving == 0, let continuation = whenIdle else { return }
        whenIdle = nil
        continuation.resume()
    }

    /// Looks at once for messages to resolve, to send and to end.
    private func searchNow() {
        nextSearch = 0
        claimNow()
    }

    /// Looks at once for receivers.
    private func claimNow() {
        nextClaim = 0
        signal.send()
    }

    private var waitTime: Duration {
        var next = min(nextSearch, nextClaim, loop.now + 3_600_000)
        if work.lease != nil, isBusy { next = min(next, work.nextMaintenance) }
        if !ready.isEmpty { next = min(next, loop.now + rateLimit.wait.wholeMilliseconds) }
        return .milliseconds(Int(max(1, next - min(loop.now, next))))
    }

    /// Whether a server may have work that has to be reclaimed or reconciled. An idle server does not look for it.
    private var isBusy: Bool { hasWork || !ready.isEmpty || inFlight + pendingWrites > 0 }

    // MARK: Claiming

    /// Claims receivers for the requests that can be made now. Returns whether there may be more to claim at once.
    private func claim() async throws -> Bool {
        defer { dispatch() }
        // The end of a request, or of a write, leads here again.
        // What is claimed is sent within about a second, since it can neither be canceled nor expire.
        guard work.mayClaim, let lease = work.lease, ready.isEmpty, inFlight < Self.maxRequestsInFlight,
            pendingWrites < Self.maxPendingWrites
        else { return false }
        guard rateLimit.available(at: EventLoop.milliseconds()) > 0 else {
            nextClaim = loop.now + rateLimit.wait.wholeMilliseconds
            return false
        }
        var requests = min(Self.maxRequestsInFlight - inFlight, requestsPerSecond)
        // While calls are in vain, one finds out whether that has changed.
        if let nextCall = availability.nextCall(.messages) {
            guard inFlight == 0 else { return false }
            guard loop.now >= nextCall else {
                nextClaim = nextCall
                return false
            }
            requests = 1
        }
        let restorations = restorations
        let claimed = try await store.claim(requests: requests, under: lease.id)
        if let last = claimed.last(where: { $0.claim.position >= 0 }) { await work.write(last.claim.id, under: lease) }
        guard work.holds(lease) else {
            // Another server reclaims them.
            work.renewLeaseNow()
            return false
        }
        for batch in batches(of: claimed) {
            for claim in batch.receivers { work.track(claim.id) }
            ready.append(batch)
        }
        if isRestoring || restorations != self.restorations { releaseReady() }
        work.progress.recordSuccess()
        return !claimed.isEmpty
    }

    /// Groups claimed receivers by their message into requests.
    private func batches(of claimed: [ClaimReceivers.Receiver]) -> [ReceiverBatch] {
        var batches: [ReceiverBatch] = []
        var rest = claimed[...]
        while let first = rest.first {
            let own = rest.prefix { $0.claim.messageID == first.claim.messageID }
            rest = rest.dropFirst(own.count)
            // A message whose receivers have failed because a quota is used up may have ended.
            possiblyFinished.insert(first.claim.messageID)
            let failed = own.reduce(0) { $0 + Int($1.failed) }
            if failed > 0 { self.receivers.add(failed, to: .failed) }
            let claims = own.map(\.claim).filter { $0.position >= 0 }
            guard let message = own.lazy.compactMap(\.message).first else { continue }
            batches += claims.filter(\.isAlone).map { ReceiverBatch(message: message, receivers: [$0]) }
            var together = claims.filter { !$0.isAlone }[...]
            while !together.isEmpty {
                let batch = together.prefix(FriendMessageAnswer.maximumReceivers)
                together = together.dropFirst(batch.count)
                batches.append(ReceiverBatch(message: message, receivers: Array(batch)))
            }
        }
        return batches
    }

    // MARK: Sending

    private func dispatch() {
        while !isStopping, !isRestoring, inFlight < Self.maxRequestsInFlight, let lease = work.lease,
            lease.maySend(at: EventLoop.milliseconds()), rateLimit.available(at: EventLoop.milliseconds()) > 0,
            !ready.isEmpty, availability.admits(.messages), let batch = ready.popFirst()
        {
            rateLimit.take(1)
            inFlight += 1
            Task(executorPreference: loop) { await self.send(batch, under: lease) }
        }
    }

    private func send(_ batch: ReceiverBatch, under lease: WorkLease) async {
        // The lease may have been renewed since the batch was claimed, but not replaced.
        let results: [ReceiverResult]
        if let current = work.lease, current.id == lease.id {
            results = await courier.send(batch, startingBefore: current.sendingEnd)
        } else {
            results = batch.receivers.map { _ in .notSent }
        }
        inFlight -= 1
        for (claim, result) in zip(batch.receivers, results) {
            known.record(result, of: claim, from: batch.message.sender)
            record(result, of: claim)
        }
        // Another server may reach Kakao in another way. But the response to a request in flight may show that only one was in
        // vain.
        if inFlight == 0, availability.nextCall(.messages) != nil { releaseReady() }
        dispatch()
        // A claim is worth its statements if it is for several requests.
        if ready.isEmpty, inFlight <= Self.maxRequestsInFlight / 2 { claimNow() }
    }

    private func releaseReady() {
        while let batch = ready.popFirst() { for claim in batch.receivers { record(.notSent, of: claim) } }
    }

    /// Stores what became of a receiver, in the background.
    private func record(_ result: ReceiverResult, of claim: ReceiverClaim) {
        pendingWrites += 1
        Task(executorPreference: loop) { await self.write(result, of: claim) }
    }

    private func write(_ result: ReceiverResult, of claim: ReceiverClaim) async {
        await work.persist(pending: { pendingWrites }, { try await self.store.record(result, of: claim) })
        work.untrack(claim.id)
        pendingWrites -= 1
        switch result.state {
        case .pending: claimNow()
        case .waiting:
            if let seconds = result.secondsUntilDue {
                // The database counts from the commit.
                nextClaim = min(nextClaim, loop.now + UInt64(seconds * 1000) + Self.commitMilliseconds)
                signal.send()
            }
        case .sending, .sent, .failed, .uncertain, .skipped:
            receivers.add(to: result.state)
            possiblyFinished.insert(claim.messageID)
        }
        if pendingWrites == Self.maxPendingWrites - 1 { claimNow() }
        if pendingWrites == 0 { signal.send() }
        resumeWhenIdle()
    }

    /// Ends the messages whose time is over.
    private func expireMessages() async throws {
        let limit = Self.maxExpiredPerStatement
        while let expired = try await (store.pool.write(ExpireMessages(limit: limit)) as [Int64]).first, expired > 0 {
            notices.webhooks.changed()
            guard expired == Int64(limit) else { return }
        }
    }

    /// Ends the messages whose last result is stored.
    private func finishMessages() async throws {
        guard !possiblyFinished.isEmpty, pendingWrites == 0 || possiblyFinished.count >= Self.maxPendingWrites else {
            return
        }
        let ids = possiblyFinished
        possiblyFinished = []
        do {
            _ = try await store.pool.write(FinishMessages(ids: Array(ids))) as [UUID]
            notices.webhooks.changed()
        } catch {
            possiblyFinished.formUnion(ids)
            throw error
        }
    }

    // MARK: Receivers by user id

    /// Finds the uuids of receivers whom the request named by user id.
    private func resolveReceivers() async throws {
        let limit = Self.maxConcurrentResolutions - resolving
        guard limit > 0 else { return }
        for message in try await store.pool.write(ClaimResolutions(limit: limit)) as [UnresolvedMessage] {
            resolving += 1
            Task(executorPreference: loop) { await self.resolve(message) }
        }
    }

    private func resolve(_ message: UnresolvedMessage) async {
        do {
            let failed = try await friends.resolve(message)
            if failed > 0 { receivers.add(failed, to: .failed) }
            possiblyFinished.insert(message.id)
        } catch {
            logger.debug("Friends not read", metadata: ["message": "\(message.id.lowercased)", "error": "\(error)"])
        }
        resolving -= 1
        searchNow()
        resumeWhenIdle()
    }
}
