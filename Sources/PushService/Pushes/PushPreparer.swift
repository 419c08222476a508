internal import EventLoop
internal import Logging

/// Has audiences become batches, in the background, a step at a time: of several pushes each in turn.
actor PushPreparer {
    /// Pushes that are looked up at a time.
    private static let pushes = 100
    /// Steps of one push before it is another one's turn, if there is another.
    private static let steps = 10
    /// How soon it looks again when other servers are at all that there is to prepare.
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

    /// Works until it is stopped.
    func run() async {
        while !isStopping {
            await notices.preparing.wait(atMost: .seconds(3600))
            do {
                try await prepare()
            } catch {
                logger.warning("Audiences could not be prepared", metadata: ["error": "\(error)"])
                notices.preparing.send(after: .seconds(1))
            }
        }
    }

    /// Lets ``run()`` end after the step in hand.
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
                    // The others do not wait for one that cannot be prepared.
                    logger.warning(
                        "An audience could not be prepared",
                        metadata: ["push": "\(preparation.pushID.lowercased)", "error": "\(error)"]
                    )
                }
            }
            if !hasMoved { try await loop.sleep(for: Self.retryInterval) }
            due = try await store.due(limit: Self.pushes)
        }
    }

    /// Takes some steps. Returns whether it has; another server may be at it.
    ///
    /// While one is being stored the users of the next are read: most of a step's time somebody would wait, for an index or for a disk.
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
            // So that it is under way before this one's users are looked at; but what is sent first waits for nothing.
            if current.position > 0 { await Task.yield() }
            guard try await store.store(page, of: current) else { return step > 1 }
            notices.batchesAdded(to: current.pushID, areLast: page.isLast)
            guard let following = try await nextPage else { return true }
            (current, page) = (next, following)
        }
        return true
    }
}
