internal import EventLoop
internal import FoundationEssentials
internal import Logging

/// Removes what is no longer wanted, in the background and in small steps: nothing waits for it, and it waits for nobody.
actor PushHousekeeper {
    private static let interval = Duration.seconds(600)
    /// After the start, so that a server that is restarted often gets to it as well.
    private static let firstInterval = Duration.seconds(30)
    // Rows that go in one statement; between two of them it lets others work.
    private static let rows = 1000
    /// Parts of pushes, with up to fifty thousand users each.
    private static let pushParts = 5
    /// Parts of audiences, with a thousand users each.
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

    /// Works until it is stopped.
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
                logger.debug("What is no longer wanted could not be removed", metadata: ["error": "\(error)"])
            }
        }
    }

    /// Lets ``run()`` end after the step in hand.
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
