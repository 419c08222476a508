import EventLoop
import FoundationEssentials
import KakaoAPI
import Logging
import Postgres
import Runtime

/// The receivers of messages as the work of a queue: claims them, makes the requests, and stores what became of each receiver.
struct MessageWork: QueueWork {
    typealias Schedule = MessageSchedule

    /// The number of messages without open receivers that are found at a time.
    private static let maxFinishedPerSearch = 1000
    /// The number of messages that expire in one statement. With 10,000 receivers each, they take most of a second.
    private static let maxExpiredPerStatement = 10

    let messages: MessageStore
    let courier: MessageCourier
    let availability: KakaoAvailability
    let notices: MessageNotices
    /// The receivers by final state.
    let receivers: LoopCounts<ReceiverState>.Own

    var nextTrial: UInt64? { availability.nextCall(.messages) }
    func admits() -> Bool { availability.admits(.messages) }

    func drainNotices() -> MessageNotices.Changes { notices.drainChanges() }

    func claim(_ requests: Int, under lease: UUID) async throws -> ClaimedReceivers {
        let claimed = ClaimedReceivers(try await messages.claim(requests: requests, under: lease))
        if claimed.failed > 0 { receivers.add(claimed.failed, to: .failed) }
        return claimed
    }

    func open(under lease: UUID) async throws -> [ReceiverClaim] { try await messages.open(under: lease) }

    func perform(
        _ batch: ReceiverBatch,
        startingBefore latestStart: UInt64
    ) async -> [QueueResult<ReceiverClaim, ReceiverResult>] {
        let results = await courier.send(batch, startingBefore: latestStart)
        return zip(batch.receivers, results).map { QueueResult($0, $1) }
    }

    func record(_ result: QueueResult<ReceiverClaim, ReceiverResult>) async throws {
        try await messages.record(result.outcome, of: result.claim)
    }

    func recorded(_ result: QueueResult<ReceiverClaim, ReceiverResult>) {
        if result.outcome.state.isFinal { receivers.add(to: result.outcome.state) }
    }

    func reclaimed(_ work: ReclaimedWork) {
        let count = work.uncertainUsers
        if count > 0 { receivers.add(count, to: .uncertain) }
    }

    func restore(_ known: KnownReceivers, _ report: LostCommits.Report) async throws {
        try await messages.restore(known, report)
    }

    /// - Returns: Messages that may have no open receivers.
    func perform(_ chore: MessageSchedule.Chore) async throws -> [UUID] {
        switch chore {
        case .search:
            notices.resolving.send()
            try await expireMessages()
            return []
        case .findFinished:
            return try await messages.pool.read(FindFinishedMessages(limit: Self.maxFinishedPerSearch))
        case .finish(let ids):
            _ = try await messages.pool.write(FinishMessages(ids: ids)) as [UUID]
            notices.webhooks.send()
            return []
        }
    }

    /// Ends the messages whose time is over.
    private func expireMessages() async throws {
        let limit = Self.maxExpiredPerStatement
        while let expired = try await (messages.pool.write(ExpireMessages(limit: limit)) as [Int64]).first, expired > 0
        {
            notices.webhooks.send()
            guard expired == Int64(limit) else { return }
        }
    }
}

extension ReceiverClaim: QueueClaim {}

/// The receivers that a statement has claimed, in requests.
struct ClaimedReceivers: QueueClaims {
    let receivers: [ClaimReceivers.Receiver]
    let batches: [ReceiverBatch]
    /// The number of receivers that have failed, because a quota is used up.
    let failed: Int

    init(_ receivers: [ClaimReceivers.Receiver]) {
        self.receivers = receivers
        failed = receivers.reduce(0) { $0 + Int($1.failed) }
        var batches: [ReceiverBatch] = []
        var rest = receivers[...]
        while let first = rest.first {
            let own = rest.prefix { $0.claim.messageID == first.claim.messageID }
            rest = rest.dropFirst(own.count)
            guard let message = own.lazy.compactMap(\.message).first else { continue }
            let claims = own.map(\.claim).filter { $0.position >= 0 }
            batches += claims.filter(\.isAlone).map { ReceiverBatch(message: message, receivers: [$0]) }
            var together = claims.filter { !$0.isAlone }[...]
            while !together.isEmpty {
                let batch = together.prefix(FriendMessageAnswer.maximumReceivers)
                together = together.dropFirst(batch.count)
                batches.append(ReceiverBatch(message: message, receivers: Array(batch)))
            }
        }
        self.batches = batches
    }

    var claims: [ReceiverClaim] { batches.flatMap(\.receivers) }
    /// Nothing is claimed under a lease that is gone or has ended. Its next renewal finds that out.
    var isLeaseValid: Bool { true }
}
