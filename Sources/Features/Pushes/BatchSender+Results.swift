import Endpoints
import EventLoop
import KakaoAPI
import Logging
import Runtime

// The results of batches, which ``WorkQueue/persist(pending:_:)`` retries until they are stored.
extension BatchSender {
    /// Stores the result of a batch in the background.
    func record(_ result: BatchResult, of claim: BatchClaim) {
        known.record(result, of: claim)
        pendingWrites += 1
        pushes[claim.pushID]?.pendingWrites += 1
        guard case .sent = result, claim.shared != nil else {
            let isRejectedRepeatedly = pushes[claim.pushID]?.isRejectedRepeatedly ?? false
            Task(executorPreference: loop) {
                await self.write(result, of: claim, isRejectedRepeatedly: isRejectedRepeatedly)
            }
            return
        }
        sent.append(claim)
        guard !isWritingSent else { return }
        isWritingSent = true
        Task(executorPreference: loop) { await self.writeSent() }
    }

    private func write(_ result: BatchResult, of claim: BatchClaim, isRejectedRepeatedly: Bool) async {
        await persist { try await self.store(result, of: claim, isRejectedRepeatedly: isRejectedRepeatedly) }
        recordWritten(result, claim)
    }

    /// Stores that batches were sent, until none are left. Batches that arrive while a group is being stored form the
    /// next group.
    private func writeSent() async {
        while !sent.isEmpty {
            let group = sent
            sent = []
            await persist { try await self.store.recordSent(group) }
            for claim in group { recordWritten(.sent, claim) }
        }
        isWritingSent = false
    }

    private func persist(_ write: () async throws -> Void) async {
        await work.persist(pending: { pendingWrites }, write)
    }

    private func store(_ result: BatchResult, of claim: BatchClaim, isRejectedRepeatedly: Bool) async throws {
        if claim.shared != nil { try await store.addRow(for: claim) }
        switch result {
        case .split:
            try await store.split(claim, result, isRejectedRepeatedly: isRejectedRepeatedly)
        case .failed(let error) where error.disposition == .invalid:
            let reason = "Kakao rejects the message for every user of a batch. \(error)"
            if try await store.recordRejection(result, of: claim, reason: reason) {
                warnOfHalt(claim, reason)
                notices.pushChanged()
            }
        case .halt(let error):
            // The push is halted first, because until then other servers claim more of its batches.
            if try await store.halt(claim, reason: error.description) { warnOfHalt(claim, error.description) }
            try await store.record(result, of: claim)
        case .sent:
            try await store.record(result, of: claim)
            if claim.origin != nil { try await store.endProbe(claim.pushID) }
        case .failed, .retry, .unrecognized, .wait, .uncertain, .notSent:
            try await store.record(result, of: claim)
        }
    }

    private func warnOfHalt(_ claim: BatchClaim, _ reason: String) {
        notices.webhooks.changed()
        let name = pushes[claim.pushID]?.push.name
        logger.warning(
            "Push halted",
            metadata: ["push": "\(claim.pushID.lowercased)", "name": "\(name ?? "")", "reason": "\(reason)"]
        )
    }

    private func recordWritten(_ result: BatchResult, _ claim: BatchClaim) {
        work.untrack(claim.id)
        pendingWrites -= 1
        if result.state != .waiting { users.add(claim.userIDs.count, to: result.state) }
        defer { resumeWhenIdle() }
        guard let push = pushes[claim.pushID] else { return }
        push.pendingWrites -= 1
        switch result {
        case .sent, .failed, .uncertain:
            push.mayBeFinished = true
            // It may have ended a probe, so that there is more to claim.
            if claim.origin != nil { push.idleUntil = 0 }
        case .split:
            push.unsplit -= 1
            push.idleUntil = 0
        case .halt:
            push.isHalting = false
            nextRefresh = 0
        case .retry, .unrecognized, .wait, .notSent: break
        }
        if push.heldBatches == 0 || pendingWrites == Self.maxPendingWrites - 1
            || push.push.delivery == .atMostOnce && hasAtMostOnceRoom
        {
            signal.send()
        }
    }
}
