import Endpoints
import EventLoop
import FoundationEssentials
import KakaoAPI
import Logging
import Runtime

/// The batches of pushes as the work of a queue: claims them, sends them to Kakao, and stores the result of each.
struct PushWork: QueueWork {
    typealias Schedule = PushSchedule

    let batches: BatchStore
    let kakao: KakaoClient
    /// The API version of `kakao`.
    let version: PushVersion
    let availability: KakaoAvailability
    /// Returns the URL to which Kakao reports failed tokens; `nil` for no reports.
    let returnURL: @Sendable () -> String?
    /// Returns the maximum number of requests begun per second; `nil` for no limit.
    let requestsPerSecond: @Sendable () -> Int?
    let intervals: WorkIntervals
    let notices: PushNotices
    /// The users by the final state of their batch.
    let users: LoopCounts<BatchState>.Own
    let logger: Logger

    var nextTrial: UInt64? { availability.nextCall(.pushes) }
    func admits() -> Bool { availability.admits(.pushes) }

    func drainNotices() -> PushSchedule.Notices {
        PushSchedule.Notices(changes: notices.drainChanges(), requestsPerSecond: requestsPerSecond())
    }

    func perform(_ chore: PushSchedule.Chore) async throws -> PushSchedule.ChoreResult {
        switch chore {
        case .refresh(let known):
            let active = try await batches.active(besides: known) {
                let pushID = PushIDMember(batches.settings.idField, id: $0.id)
                return EncodedPushMessage($0.message.rendered(for: version, returnURL: returnURL(), pushID: pushID))
            }
            if !active.unprepared.isEmpty { notices.preparing.send() }
            return .active(active)
        case .expire(let id):
            try await batches.expire(id)
            notices.webhooks.send()
            return .done
        case .finish(let ids):
            let finished = try await batches.finish(ids)
            notices.webhooks.send()
            return .finished(finished)
        case .reportPause(let end, let error):
            let wait = Duration.milliseconds(end - min(end, EventLoop.milliseconds()))
            availability.recordQuotaExhaustion(for: wait)
            logger.warning(
                "Sender paused: Kakao's quota is exhausted",
                metadata: ["for": "\(wait)", "kakao": "\(error)"]
            )
            return .done
        }
    }

    // MARK: Claims and requests

    func claim(_ shares: [BatchStore.Share], under lease: UUID) async throws -> ClaimedBatches {
        try await batches.claim(shares, lease: lease)
    }

    func open(under lease: UUID) async throws -> [BatchClaim] { try await batches.open(under: lease) }

    func perform(
        _ request: PushRequest,
        startingBefore latestStart: UInt64
    ) async -> [QueueResult<BatchClaim, BatchResult>] {
        let claim = request.claim
        do throws(KakaoError) {
            try await kakao.call(
                SendPush(
                    version: version,
                    userIDs: claim.userIDs,
                    message: request.message,
                    bypass: request.bypass ? true : nil
                ),
                startingBefore: min(latestStart, request.hoursEnd ?? .max)
            )
            return [QueueResult(claim, .sent)]
        } catch {
            let result = BatchResult(
                error,
                attempts: claim.attempts,
                claims: Int(claim.claims),
                users: claim.userIDs.count,
                delivery: request.delivery,
                firstDelay: intervals.retry,
                jitter: Double.random(in: 0.8...1.2)
            )
            return [QueueResult(claim, result)]
        }
    }

    // MARK: Results

    /// Nearly every batch is sent at its first attempt.
    func isGrouped(_ result: QueueResult<BatchClaim, BatchResult>) -> Bool {
        if case .sent = result.outcome { result.claim.shared != nil } else { false }
    }

    func recordGroup(_ results: [QueueResult<BatchClaim, BatchResult>]) async throws {
        try await batches.recordSent(results.map(\.claim))
    }

    func record(_ result: QueueResult<BatchClaim, BatchResult>) async throws {
        let (claim, outcome) = (result.claim, result.outcome)
        if claim.shared != nil { try await batches.addRow(for: claim) }
        switch outcome {
        case .split:
            try await batches.split(claim, outcome, isRejectedRepeatedly: claim.isRejectedRepeatedly)
        case .failed(let error) where error.disposition == .invalid:
            let reason = "Kakao rejects the message for every user of a batch. \(error)"
            if let name = try await batches.recordRejection(outcome, of: claim, reason: reason) {
                warnOfHalt(claim, name, reason)
                notices.pushChanged()
            }
        case .halt(let error):
            // The push is halted first, because until then other servers claim more of its batches.
            if let name = try await batches.halt(claim, reason: error.description) {
                warnOfHalt(claim, name, error.description)
            }
            try await batches.record(outcome, of: claim)
        case .sent:
            try await batches.record(outcome, of: claim)
            if claim.origin != nil { try await batches.endProbe(claim.pushID) }
        case .failed, .retry, .unrecognized, .wait, .uncertain, .notSent:
            try await batches.record(outcome, of: claim)
        }
    }

    private func warnOfHalt(_ claim: BatchClaim, _ name: String, _ reason: String) {
        notices.webhooks.send()
        logger.warning(
            "Push halted",
            metadata: ["push": "\(claim.pushID.lowercased)", "name": "\(name)", "reason": "\(reason)"]
        )
    }

    func recorded(_ result: QueueResult<BatchClaim, BatchResult>) {
        let state = result.outcome.state
        if state != .waiting { users.add(result.claim.userIDs.count, to: state) }
    }

    func reclaimed(_ work: ReclaimedWork) {
        let count = work.uncertainUsers
        if count > 0 { users.add(count, to: .uncertain) }
    }

    func restore(_ known: KnownBatches, _ report: LostCommits.Report) async throws {
        try await batches.restore(known, report)
    }
}

extension BatchClaim: QueueClaim {}

extension ClaimedBatches: QueueClaims {
    var claims: [BatchClaim] { batches }
}
