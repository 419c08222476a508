import Endpoints
import EventLoop
import FoundationEssentials
import Logging
import Runtime

/// Expands audiences into batches in the background, step by step, round-robin over pushes.
struct PushPreparer: Sendable {
    /// The maximum number of pushes that are looked up at a time.
    private static let maxPushesPerLookup = 100
    /// The number of steps of one push before the next one, if there is another.
    private static let maxStepsPerTurn = 10
    /// The delay before the next look-up if other servers are preparing all of the pushes.
    private static let retryInterval = Duration.milliseconds(500)

    let store: PreparationStore
    let notices: PushNotices
    let logger: Logger

    func worker(on loop: EventLoop) -> BackgroundWorker {
        BackgroundWorker(
            "prepare-pushes",
            on: loop,
            every: .seconds(3600),
            firstAfter: .seconds(3600),
            signal: notices.preparing,
            retryAfter: .seconds(1),
            pace: nil,
            failure: "Preparer pass failed",
            level: .warning,
            logger: logger
        ) { worker in
            try await prepare(worker)
            return nil
        }
    }

    private func prepare(_ worker: BackgroundWorker) async throws {
        var due = try await store.due(limit: Self.maxPushesPerLookup)
        while !due.isEmpty, !worker.isStopping {
            var hasMoved = false
            for preparation in due where !worker.isStopping {
                do {
                    if try await prepare(preparation, worker) { hasMoved = true }
                } catch let removal as ExcludedUsers.PushRemoved {
                    try await halt(preparation.pushID, reason: removal.description)
                } catch {
                    // The other pushes do not wait for one that cannot be prepared.
                    logger.warning(
                        "Audience preparation failed",
                        metadata: ["push": "\(preparation.pushID.lowercased)", "error": "\(error)"]
                    )
                }
            }
            if !hasMoved { try await worker.loop.sleep(for: Self.retryInterval) }
            due = try await store.due(limit: Self.maxPushesPerLookup)
        }
    }

    private func halt(_ id: UUID, reason: String) async throws {
        guard try await store.halt(id, reason: reason) else { return }
        reportHalt(of: id, reason: reason)
    }

    private func reportHalt(of id: UUID, reason: String) {
        logger.warning("Push halted", metadata: ["push": "\(id.lowercased)", "reason": "\(reason)"])
        notices.pushChanged()
    }

    /// Performs some steps. Returns `false` if it stored none, because another server may be preparing the push.
    ///
    /// While one step is being stored, the users of the next are read, because a step mostly waits for an index or a
    /// disk.
    private func prepare(
        _ preparation: PreparationStore.Preparation,
        _ worker: BackgroundWorker
    ) async throws -> Bool {
        guard !preparation.isRetry else {
            let isLast = try await store.retryBatches(of: preparation.pushID)
            notices.batchesAdded(to: preparation.pushID, areLast: isLast)
            return true
        }
        var current = preparation
        guard var page = try await store.page(current) else { return false }
        for step in 1... {
            let next = current.moved(past: page)
            var isOver = page.isLast || worker.isStopping
            if !isOver, step.isMultiple(of: Self.maxStepsPerTurn) { isOver = try await store.due(limit: 2).count > 1 }
            let hasNext = !isOver
            async let nextPage = hasNext ? store.page(next) : nil
            // The next page is requested before this one is processed. The first page is processed at once, so that
            // sending begins soon.
            if current.position > 0 { await Task.yield() }
            guard let stored = try await store.store(page, of: current) else { return step > 1 }
            if let reason = stored.haltReason {
                reportHalt(of: current.pushID, reason: reason)
            } else {
                notices.batchesAdded(to: current.pushID, areLast: page.isLast)
            }
            guard let following = try await nextPage else { return true }
            (current, page) = (next, following)
        }
        return true
    }
}
