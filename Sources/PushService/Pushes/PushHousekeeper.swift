internal import EventLoop
internal import Logging

/// Removes what is no longer wanted, in the background and in small steps: nothing waits for it, and it waits for nobody.
actor PushHousekeeper {
    private static let interval = Duration.seconds(600)
    /// After the start, so that a server that is restarted often gets to it as well.
    private static let firstInterval = Duration.seconds(30)
    /// Rows that go in one statement; between two of them it lets others work.
    private static let step = 1000
    /// Parts of audiences, of a thousand users each; and of pushes, of up to fifty thousand.
    private static let audienceParts = 100
    private static let pushParts = 5
    private static let pause = Duration.milliseconds(100)

    nonisolated let unownedExecutor: UnownedSerialExecutor
    private let loop: EventLoop
    private let store: HousekeepingStore
    private let audiences: AudienceStore
    private let retentionDays: Int
    private let logger: Logger
    private let wakeup: Wakeup
    private var isStopping = false

    init(loop: EventLoop, store: HousekeepingStore, audiences: AudienceStore, retentionDays: Int, logger: Logger) {
        self.loop = loop
        unownedExecutor = loop.asUnownedSerialExecutor()
        self.store = store
        self.audiences = audiences
        self.retentionDays = retentionDays
        self.logger = logger
        wakeup = Wakeup(loop: loop)
    }

    /// Works until it is stopped.
    func run() async {
        var wait = Self.firstInterval
        while !isStopping {
            await wakeup.wait(atMost: wait)
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
        wakeup.signal()
    }

    private func removePushes() async throws {
        while !isStopping, let push = try await store.expiredPush(retentionDays: retentionDays) {
            while !isStopping, try await store.removeBatches(of: push, limit: Self.step) == Self.step {
                try await loop.sleep(for: Self.pause)
            }
            while !isStopping, try await store.removeParts(of: push, limit: Self.pushParts) == Self.pushParts {
                try await loop.sleep(for: Self.pause)
            }
            guard !isStopping else { return }
            try await store.remove(push)
        }
    }
}
