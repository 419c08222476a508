import EventLoop
import FoundationEssentials
import Logging
import Runtime

/// Removes old pushes and unused parts of audiences in the background, in steps that are too small to delay other work, and
/// ends pushes that were not approved in time.
struct PushHousekeeper: Sendable {
    // The number of rows that one statement removes.
    private static let rows = 1000
    /// Parts of pushes, with up to 50,000 users each.
    private static let pushParts = 5
    /// Parts of audiences, with 1,000 users each.
    private static let audienceParts = 100

    let store: HousekeepingStore
    let pushes: PushStore
    let audiences: AudienceStore
    /// The setting `pushes.retention_days`.
    let retentionDays: Int
    let logger: Logger

    func worker(on loop: EventLoop, pace: PollPace) -> BackgroundWorker {
        .cleanup("remove-old-pushes", on: loop, pace: pace, logger: logger) { worker in
            try await pushes.expireProposals()
            try await removePushes(worker)
            try await worker.delete(inStepsOf: Self.audienceParts) {
                try await audiences.removeUnusedParts(limit: Self.audienceParts)
            }
        }
    }

    private func removePushes(_ worker: BackgroundWorker) async throws {
        while !worker.isStopping, let push = try await store.expiredPush(retentionDays: retentionDays) {
            try await remove(.batches, of: push, step: Self.rows, worker)
            try await remove(.claims, of: push, step: Self.rows, worker)
            try await remove(.parts, of: push, step: Self.pushParts, worker)
            guard !worker.isStopping else { return }
            try await store.remove(push)
        }
    }

    private func remove(
        _ table: HousekeepingStore.Table,
        of push: UUID,
        step: Int,
        _ worker: BackgroundWorker
    ) async throws {
        try await worker.delete(inStepsOf: step) { try await store.remove(table, of: push, limit: step) }
    }
}
