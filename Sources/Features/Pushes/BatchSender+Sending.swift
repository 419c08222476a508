import DequeModule
import EventLoop
import KakaoAPI
import Logging
import Runtime

// Requests to Kakao, and the sender's reactions to their results.
extension BatchSender {
    /// Sends a batch, and then claimed batches until none is left. The result of each is recorded while the next is in
    /// flight.
    func send(_ first: BatchClaim) async {
        var next: BatchClaim? = first
        // A push is not removed while batches of it are held.
        while let claim = next, let push = pushes[claim.pushID] {
            let result = await attempt(claim, push)
            inFlight -= 1
            push.inFlight -= 1
            react(to: result, of: claim, push)
            record(result, of: claim)
            next = dequeueNext()
            dispatch()
        }
    }

    private func attempt(_ claim: BatchClaim, _ push: OutgoingPush) async -> BatchResult {
        // A request that waits for a connection must not be sent after the end of the lease.
        guard let lease = work.lease, lease.id == claim.lease else { return .notSent }
        do throws(KakaoError) {
            try await kakao.call(
                SendPush(
                    version: version,
                    userIDs: claim.userIDs,
                    message: push.message,
                    bypass: push.push.bypass ? true : nil
                ),
                startingBefore: min(lease.sendingEnd, push.hoursEnd ?? .max)
            )
            return .sent
        } catch {
            return BatchResult(
                error,
                attempts: claim.attempts,
                claims: Int(claim.claims),
                users: claim.userIDs.count,
                delivery: push.push.delivery,
                firstDelay: work.intervals.retry,
                jitter: Double.random(in: 0.8...1.2)
            )
        }
    }

    private func react(to result: BatchResult, of claim: BatchClaim, _ push: OutgoingPush) {
        switch result {
        case .sent:
            quotaWait = work.intervals.quotaWait
            push.recordAcceptance()
        case .wait(let error):
            pause(error)
        case .retry(let delay, _, _), .unrecognized(let delay, _, _):
            push.recordRetry(at: loop.now + delay.wholeMilliseconds)
        case .halt:
            // The claimed batches of the push are released. Other servers detect the rejection themselves.
            push.isHalting = true
            release(push)
        case .split:
            push.recordRejection(of: claim)
            push.splits += 1
            push.unsplit += 1
            if push.isHeld { release(push) }
        case .failed(let error):
            if error.disposition == .invalid { push.recordRejection(of: claim) }
        case .uncertain, .notSent:
            break
        }
        // The next request is made alone, and later. Another server may reach Kakao in another way meanwhile. But the response to
        // a request in flight may show that only one was in vain.
        if inFlight == 0, availability.nextCall(.pushes) != nil { for push in pushes.values { release(push) } }
    }

    /// Pauses the sender because Kakao's quota is exhausted.
    private func pause(_ error: KakaoError) {
        // All requests in flight get the same response, which counts once.
        guard loop.now >= pausedUntil else { return }
        let longest = work.intervals.quotaWait * 60
        let wait = max(quotaWait, min(error.retryAfter ?? .zero, longest))
        pausedUntil = loop.now + wait.wholeMilliseconds
        // Batches are released, because another server may have a quota of its own.
        for push in pushes.values { release(push) }
        availability.recordQuotaExhaustion(for: wait)
        quotaWait = min(quotaWait * 2, longest)
        signal.send(after: wait)
        logger.warning("Sender paused: Kakao's quota is exhausted", metadata: ["for": "\(wait)", "kakao": "\(error)"])
    }

    /// Releases the batches of a push that are claimed and not sent yet.
    func release(_ push: OutgoingPush) {
        while let claim = push.claims.popFirst() {
            claimed -= 1
            record(.notSent, of: claim)
        }
        ready.removeAll { $0 === push }
    }
}
