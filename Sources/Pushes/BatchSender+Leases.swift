internal import DequeModule
internal import EventLoop
internal import Logging

// The lease under which batches are claimed, and the reclaiming of batches of expired leases.
extension BatchSender {
    /// Acquires a lease, renews it, and replaces one that another server has ended, until the task is cancelled.
    ///
    /// Runs in a task of its own, so that a hanging statement of the sender does not prevent the renewal.
    func keepLease() async {
        while !Task.isCancelled {
            var wait = intervals.retry
            do {
                try await renewLease()
                wait = intervals.renewal
            } catch {
                recordFailure(error)
            }
            await leaseSignal.wait(atMost: wait)
        }
    }

    private func renewLease() async throws {
        let start = EventLoop.milliseconds()
        if let lease {
            if let renewal = try await store.renew(lease.id) {
                self.lease?.renewed(at: start)
                // Finds pushes whose notification was lost. An idle server does not read them at each renewal.
                if renewal.hasUnfinishedPushes { nextRefresh = 0 }
                if pushes.isEmpty || loop.now < pausedUntil { progress.recordSuccess() }
                dispatch()
                return signal.send()
            }
            loseLease()
        }
        // Each attempt uses a new id, so that nothing is claimed under an id whose response was lost.
        let lease = SenderLease(requestedAt: start, intervals)
        try await store.acquire(lease.id)
        self.lease = lease
        hasLostClaim = false
        nextReconciliation = loop.now + intervals.renewal.wholeMilliseconds
        signal.send()
    }

    /// Handles the loss of the lease: another server has reclaimed the batches of this one. Batches that are not sent
    /// yet are dropped, and the results of those in flight will not count.
    private func loseLease() {
        lease = nil
        logger.warning(
            "Lease lost: another server has reclaimed the batches of this one",
            metadata: ["unsent_batches": "\(claimed)", "batches_in_flight": "\(inFlight)"]
        )
        for push in ready {
            for claim in push.claims { tracked.remove(claim.id) }
            push.claims = []
        }
        ready = []
        claimed = 0
    }

    /// Reclaims the batches of other servers whose leases have expired.
    func takeOver() async throws {
        nextTakeOver = loop.now + intervals.takeOver.wholeMilliseconds
        guard let lease, lease.mayTakeOver(at: EventLoop.milliseconds()) else { return }
        let (leases, batches) = try await store.reclaim(except: lease.id)
        // Pushes are checked even without batches: the server may have stored its last result and stopped before it
        // ended the push.
        guard leases > 0 else { return }
        if batches > 0 {
            logger.warning("Batches of an expired lease reclaimed", metadata: ["batches": "\(batches)"])
        }
        for push in pushes.values {
            push.idleUntil = 0
            push.mayBeFinished = true
        }
    }

    /// Releases the batches that are open under the lease but not tracked by this server, because the response to their
    /// claim was lost.
    ///
    /// Called while no claim is in flight, so that each claimed batch is tracked already. A claim whose response was
    /// lost may be committed even later. A later reconciliation then finds it.
    func reconcile() async throws {
        guard let lease else { return }
        let lost = try await store.open(under: lease.id).filter { !tracked.contains($0.id) }
        nextReconciliation = loop.now + intervals.renewal.wholeMilliseconds
        hasLostClaim = false
        guard !lost.isEmpty, self.lease?.id == lease.id else { return }
        logger.info("Batches of a lost claim released", metadata: ["batches": "\(lost.count)"])
        for claim in lost {
            tracked.insert(claim.id)
            record(.notSent, of: claim)
        }
    }
}
