import Endpoints
import EventLoop
import FoundationEssentials
import Logging

/// The id of one claim of a piece of work, such as a batch of a push.
///
/// It includes the number of claims, because the work may be claimed again before the server reads the response to the
/// statement that stored the result of this claim.
public struct ClaimID: Hashable, Sendable {
    /// The row that the work belongs to, such as a push.
    let ownerID: UUID
    /// The number of the work within that row.
    let number: Int32
    /// The number of times that the work was claimed, including this one.
    let claims: Int32

    package init(ownerID: UUID, number: Int32, claims: Int32) {
        self.ownerID = ownerID
        self.number = number
        self.claims = claims
    }
}

/// A server's part in a queue of work that any number of servers share: its lease, the work that it has claimed, and
/// the results that it has to store.
///
/// It keeps the work that the server tracks consistent with the work that is open under its lease in the database, even
/// if responses are lost. It belongs to an actor, as a ``QueueRunner``, whose event loop is `loop`.
package final class WorkQueue {
    /// A change of the lease.
    package enum LeaseChange: Sendable {
        case acquired
        /// `hasWork`: whether there is work for any server.
        case renewed(hasWork: Bool)
        /// Another server has reclaimed the work of this one. The feature drops the work that it has not begun, and its
        /// results will not count.
        case lost
    }

    /// The minimum time between two warnings that results are not stored, in milliseconds.
    private static let storageWarningInterval: UInt64 = 10_000

    package let intervals: WorkIntervals
    /// The name of the queue in `work_leases`.
    package var name: String { store.queue }
    package let progress: WorkProgress
    private let loop: EventLoop
    private let store: any WorkStore
    private let commits: LostCommits
    private let logger: Logger
    private let leaseSignal: Signal
    /// The last claim, for the case that the process is killed; `nil` without a directory.
    private var claimFile: ClaimFile?

    /// The lease of this server; `nil` while it has none.
    package private(set) var lease: WorkLease?
    /// The work that this server has claimed and whose results are not stored.
    private var tracked: Set<ClaimID> = []
    /// Whether a claim whose response was lost may have been committed: nothing more is claimed until the open work is
    /// reconciled.
    private(set) var hasLostClaim = false
    /// Whether the process is ending: results that cannot be stored at once are left to the server that reclaims the
    /// work.
    private var isProcessEnding = false
    // Times in milliseconds of the loop's clock.
    private var nextReclaim: UInt64 = 0
    private var nextReconciliation: UInt64 = 0
    private var nextStorageWarning: UInt64 = 0

    package init(
        loop: EventLoop,
        store: any WorkStore,
        commits: LostCommits,
        intervals: WorkIntervals,
        progress: WorkProgress,
        logger: Logger
    ) {
        self.loop = loop
        self.store = store
        self.commits = commits
        self.intervals = intervals
        self.progress = progress
        self.logger = logger
        leaseSignal = Signal(loop: loop)
        // The lease may be lost. Other servers wait for seconds until it is stored again.
        commits.onNewRun(leaseSignal.send)
    }

    // MARK: Claims of processes that were killed

    /// Settles the last claims of processes of this machine that were killed, however long PostgreSQL is unavailable, and opens a file
    /// for those of this process. Called before the first claim.
    ///
    /// - Parameters:
    ///   - directory: A directory that outlives the process; `nil` for none.
    ///   - isStopping: Returns whether the server is shutting down.
    package func openClaimFile(in directory: String?, unless isStopping: () -> Bool) async {
        guard let directory else { return }
        while !isStopping(), !isProcessEnding {
            do {
                try await ClaimFile.settle(in: directory, of: store.queue) { claims in
                    for claim in claims { try await store.settle(claim, commits) }
                }
                break
            } catch {
                recordFailure(error)
            }
            guard (try? await loop.sleep(for: intervals.retry)) != nil else { return }
        }
        do {
            claimFile = try ClaimFile(in: directory, of: store.queue)
        } catch {
            logger.warning(
                "Claims not written to a file: if PostgreSQL loses commits while this server is down, unfinished work is presumed done",
                metadata: ["queue": "\(store.queue)", "error": "\(error)"]
            )
        }
    }

    /// Writes the last one of claims to the file, before anything of them is carried out.
    package func write(_ lastClaim: ClaimID, under lease: WorkLease) async {
        await claimFile?.write(ClaimFile.Claim(lease: lease.id, lastClaim))
    }

    // MARK: The lease

    /// Acquires a lease, renews it, and replaces one that another server has ended, until the task is cancelled.
    ///
    /// Runs in a task of its own, so that a hanging statement does not prevent the renewal.
    package func keepLease(_ onChange: (LeaseChange) -> Void) async {
        while !Task.isCancelled {
            var wait = intervals.retry
            do {
                try await renewLease(onChange)
                wait = intervals.renewal
            } catch {
                recordFailure(error)
            }
            await leaseSignal.wait(atMost: wait)
        }
    }

    private func renewLease(_ onChange: (LeaseChange) -> Void) async throws {
        let start = EventLoop.milliseconds()
        if let lease {
            let hasWork = try await commits.health.observe { try await store.renew(lease.id, for: intervals.lease) }
            if let hasWork {
                self.lease?.renewed(at: start)
                return onChange(.renewed(hasWork: hasWork))
            }
            self.lease = nil
            onChange(.lost)
        }
        // Each attempt uses a new id, so that nothing is claimed under an id whose response was lost.
        let lease = WorkLease(requestedAt: start, intervals)
        try await commits.health.observe { try await store.acquire(lease.id, for: intervals.lease, commits) }
        self.lease = lease
        hasLostClaim = false
        nextReconciliation = loop.now + intervals.renewal.wholeMilliseconds
        onChange(.acquired)
    }

    /// Renews the lease at once: a statement has found it invalid.
    package func renewLeaseNow() {
        leaseSignal.send()
    }

    /// Returns whether `lease` is still the server's.
    package func holds(_ lease: WorkLease) -> Bool { self.lease?.id == lease.id }

    /// Whether work may be claimed.
    package var mayClaim: Bool { !hasLostClaim && lease?.maySend(at: EventLoop.milliseconds()) == true }

    /// Releases the lease, and before that the work of claims whose responses were lost. A lease that is not released expires by itself,
    /// and the file of claims stays.
    ///
    /// - Parameter settle: Reconciles, and waits until all results are stored.
    package func releaseLease(_ settle: () async throws -> Void) async {
        // The second attempt is for a claim that was committed during the first one.
        for _ in 0..<2 {
            guard let lease, !isProcessEnding else { return }
            do {
                try await settle()
                guard try await store.release(lease.id) else { continue }
                await claimFile?.remove()
            } catch {}
            return
        }
    }

    /// Gives up results that PostgreSQL does not store: the process is about to end.
    package func stopRetryingWrites() {
        isProcessEnding = true
    }

    // MARK: Claimed work

    /// Records that work was claimed.
    package func track(_ id: ClaimID) {
        tracked.insert(id)
    }

    /// Records that the result of work is stored, or that the work belongs to another server.
    package func untrack(_ id: ClaimID) {
        tracked.remove(id)
    }

    /// When open work is to be reconciled or that of other servers reclaimed, by the loop's clock in milliseconds.
    package var nextMaintenance: UInt64 { min(nextReclaim, nextReconciliation) }

    /// Reclaims the work of expired leases of other servers, if it is time.
    ///
    /// - Returns: Their work; `nil` if there were no such leases. Even without work, their server may have stopped between its last
    ///   result and what follows from it.
    package func reclaimExpired() async throws -> ReclaimedWork? {
        guard loop.now >= nextReclaim else { return nil }
        nextReclaim = loop.now + intervals.reclaim.wholeMilliseconds
        guard let lease, lease.mayReclaim(at: EventLoop.milliseconds()) else { return nil }
        let (leases, work, isPresumed) = try await store.reclaim(except: lease.id)
        if isPresumed {
            logger.warning(
                "PostgreSQL was replaced or restarted, and a server is gone that knew what it had done: unfinished work is presumed done",
                metadata: ["queue": "\(store.queue)"]
            )
        }
        if work.items > 0 {
            var metadata: Logger.Metadata = ["queue": "\(store.queue)", "items": "\(work.items)"]
            if !work.uncertain.isEmpty { metadata["uncertain"] = "\(Self.text(work.uncertain))" }
            logger.warning("Work of an expired lease reclaimed", metadata: metadata)
        }
        return leases > 0 ? work : nil
    }

    /// Returns the first ten pushes or messages with their numbers of users: `01a2…: 9600, …`.
    private static func text(_ uncertain: [UUID: Int]) -> String {
        let owners = uncertain.map { "\($0.key.lowercased): \($0.value)" }.sorted()
        return (owners.prefix(10) + (owners.count > 10 ? ["..."] : [])).joined(separator: ", ")
    }

    /// Whether it is time to reconcile.
    package var needsReconciliation: Bool { loop.now >= nextReconciliation }

    /// Returns the work that is open under the lease but not tracked by this server, because the response to its claim
    /// was lost. It is tracked from now on: the caller records that it was not carried out.
    ///
    /// Called while no claim is in flight, so that all claimed work is tracked already. A claim whose response was lost
    /// may be committed even later. A later reconciliation then finds it.
    ///
    /// - Parameters:
    ///   - list: Lists the open work of a lease.
    ///   - id: Returns the id of a claim.
    package func reconcile<Item>(_ list: (UUID) async throws -> [Item], _ id: (Item) -> ClaimID) async throws -> [Item]
    {
        guard let lease else { return [] }
        let lost = try await list(lease.id).filter { !tracked.contains(id($0)) }
        nextReconciliation = loop.now + intervals.renewal.wholeMilliseconds
        hasLostClaim = false
        guard !lost.isEmpty, holds(lease) else { return [] }
        logger.info("Work of a lost claim released", metadata: ["queue": "\(store.queue)", "items": "\(lost.count)"])
        for item in lost { tracked.insert(id(item)) }
        return lost
    }

    // MARK: Failures

    /// Records that a pass over the queue failed: the response to a claim may have been lost.
    ///
    /// - Returns: When to try again, by the loop's clock in milliseconds.
    package func recordFailedPass(_ error: any Error) -> UInt64 {
        recordFailure(error)
        hasLostClaim = true
        // Avoids a busy loop while the database is unavailable.
        nextReconciliation = loop.now + intervals.retry.wholeMilliseconds
        return nextReconciliation
    }

    /// Logs a failure, and warns once there was no progress for a while.
    private func recordFailure(_ error: any Error) {
        let metadata: Logger.Metadata = ["queue": "\(store.queue)", "error": "\(String(reflecting: error))"]
        logger.debug("Queue pass failed", metadata: metadata)
        guard let duration = progress.recordFailure(warningAfter: intervals.stall) else { return }
        logger.warning(
            "Queue makes no progress",
            metadata: metadata.merging(["for": "\(duration.components.seconds) s"]) { $1 }
        )
    }

    /// Stores a result: repeats `write` until it succeeds or the process ends. While this server holds the lease, no
    /// other server can change the work. After that, the statement that stores the result has no effect.
    ///
    /// - Parameters:
    ///   - pending: Returns the number of results that are not stored, for a warning.
    ///   - write: Stores the result. It must be idempotent.
    package func persist(pending: () -> Int, _ write: () async throws -> Void) async {
        while true {
            do {
                try await write()
                return progress.recordSuccess()
            } catch {
                warnOfStorage(error, pending: pending())
            }
            // At the end of the process, the lease expires by itself.
            guard !isProcessEnding, (try? await loop.sleep(for: intervals.retry)) != nil else { return }
        }
    }

    private func warnOfStorage(_ error: any Error, pending: Int) {
        guard loop.now >= nextStorageWarning else { return }
        nextStorageWarning = loop.now + Self.storageWarningInterval
        logger.warning(
            "Results not stored: kept for a retry",
            metadata: ["queue": "\(store.queue)", "results": "\(pending)", "error": "\(String(reflecting: error))"]
        )
    }
}
