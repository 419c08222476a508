internal import EventLoop
internal import Logging
internal import ServiceKit

/// Expands audiences into batches in the background, step by step, round-robin over pushes.
actor PushPreparer {
    /// The maximum number of pushes that are looked up at a time.
    private static let pushes = 100
    /// The number of steps of one push before the next one, if there is another.
    private static let steps = 10
    /// The delay before the next look-up if other servers are preparing all of the pushes.
    private static let retryInterval = Duration.milliseconds(500)

    nonisolated let unownedExecutor: UnownedSerialExecutor
    private let loop: EventLoop
    private let store: PreparationStore
    private let notices: PushNotices
    private let logger: Logger
    private var isStopping = false

    init(loop: EventLoop, store: PreparationStore, notices: PushNotices, logger: Logger) {
        self.loop = loop
        unownedExecutor = loop.asUnownedSerialExecutor()
        self.store = store
        self.notices = notices
        self.logger = logger
    }

    /// Runs until ``stop()`` is called.
    func run() async {
        while !isStopping {
            await notices.preparing.wait(atMost: .seconds(3600))
            do {
                try await prepare()
            } catch {
                logger.warning("Preparer pass failed", metadata: ["error": "\(error)"])
                notices.preparing.send(after: .seconds(1))
            }
        }
    }

    /// Lets ``run()`` return after the current step.
    func stop() {
        isStopping = true
        notices.preparing.send()
    }

    private func prepare() async throws {
        var due = try await store.due(limit: Self.pushes)
        while !due.isEmpty, !isStopping {
            var hasMoved = false
            for preparation in due where !isStopping {
                do {
                    if try await prepare(preparation) { hasMoved = true }
                } catch {
                    // The other pushes do not wait for one that cannot be prepared.
                    logger.warning(
                        "Audience preparation failed",
                        metadata: ["push": "\(preparation.pushID.lowercased)", "error": "\(error)"]
                    )
                }
            }
            if !hasMoved { try await loop.sleep(for: Self.retryInterval) }
            due = try await store.due(limit: Self.pushes)
        }
    }

    /// Performs some steps. Returns `false` if it stored none, because another server may be preparing the push.
    ///
    /// While one step is being stored, the users of the next are read, because a step mostly waits for an index or a
    /// disk.
    private func prepare(_ preparation: PreparationStore.Preparation) async throws -> Bool {
        guard !preparation.isRetry else {
            let isLast = try await store.retryBatches(of: preparation.pushID)
            notices.batchesAdded(to: preparation.pushID, areLast: isLast)
            return true
        }
        var current = preparation
        guard var page = try await store.page(current) else { return false }
        for step in 1... {
            let next = current.moved(past: page)
            var isOver = page.isLast || isStopping
            if !isOver, step.isMultiple(of: Self.steps) { isOver = try await store.due(limit: 2).count > 1 }
            let hasNext = !isOver
            async let nextPage = hasNext ? store.page(next) : nil
            // The next page is requested before this one is processed. The first page is processed at once, so that
            // sending begins soon.
            if current.position > 0 { await Task.yield() }
            guard try await store.store(page, of: current) else { return step > 1 }
            notices.batchesAdded(to: current.pushID, areLast: page.isLast)
            guard let following = try await nextPage else { return true }
            (current, page) = (next, following)
        }
        return true
    }
}
