internal import EventLoop
internal import FoundationEssentials
internal import Logging

/// Removes old pushes and unused parts of audiences in the background, in steps that are too small to delay other work.
actor PushHousekeeper {
    private static let interval = Duration.seconds(600)
    /// The delay after the start. It is short, so that a server that is restarted often cleans up too.
    private static let firstInterval = Duration.seconds(30)
    // The number of rows that one statement removes. A pause follows each statement.
    private static let rows = 1000
    /// Parts of pushes, with up to 50,000 users each.
    private static let pushParts = 5
    /// Parts of audiences, with 1,000 users each.
    private static let audienceParts = 100
    private static let pause = Duration.milliseconds(100)

    nonisolated let unownedExecutor: UnownedSerialExecutor
    private let loop: EventLoop
    private let store: HousekeepingStore
    private let audiences: AudienceStore
    private let retentionDays: Int
    private let logger: Logger
    private let signal: Signal
    private var isStopping = false

    init(loop: EventLoop, store: HousekeepingStore, audiences: AudienceStore, retentionDays: Int, logger: Logger) {
        self.loop = loop
        unownedExecutor = loop.asUnownedSerialExecutor()
        self.store = store
        self.audiences = audiences
        self.retentionDays = retentionDays
        self.logger = logger
        signal = Signal(loop: loop)
    }

    /// Runs until ``stop()`` is called.
    func run() async {
        var wait = Self.firstInterval
        while !isStopping {
            await signal.wait(atMost: wait)
            guard !isStopping else { return }
            wait = Self.interval
            do {
                try await removePushes()
                while !isStopping,
                    try await audiences.removeUnusedParts(limit: Self.audienceParts) == Self.audienceParts
                {
                    try await loop.sleep(for: Self.pause)
                }
            } catch {
                logger.debug("Cleanup failed", metadata: ["error": "\(error)"])
            }
        }
    }

    /// Lets ``run()`` return after the current step.
    func stop() {
        isStopping = true
        signal.send()
    }

    private func removePushes() async throws {
        while !isStopping, let push = try await store.expiredPush(retentionDays: retentionDays) {
            try await remove(.batches, of: push, step: Self.rows)
            try await remove(.claims, of: push, step: Self.rows)
            try await remove(.parts, of: push, step: Self.pushParts)
            guard !isStopping else { return }
            try await store.remove(push)
        }
    }

    private func remove(_ table: HousekeepingStore.Table, of push: UUID, step: Int) async throws {
        while !isStopping, try await store.remove(table, of: push, limit: step) == step {
            try await loop.sleep(for: Self.pause)
        }
    }
}
