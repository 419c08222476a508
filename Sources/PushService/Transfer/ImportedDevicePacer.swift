internal import EventLoop
internal import Logging

/// Has Kakao told of imported devices, in the background and at a bounded rate.
///
/// It only gives them their turn: ``DeviceSyncWorker`` tells Kakao, of whichever server.
actor ImportedDevicePacer {
    /// How often it looks for what an import of another server has left.
    private static let interval = Duration.seconds(60)

    nonisolated let unownedExecutor: UnownedSerialExecutor
    private let store: DeviceImportStore
    private let wakeup: Wakeup
    private let syncWakeup: Wakeup
    private let logger: Logger
    private var isStopping = false

    /// - Parameters:
    ///   - wakeup: Signalled when an import has ended.
    ///   - syncWakeup: Has Kakao told.
    init(loop: EventLoop, store: DeviceImportStore, wakeup: Wakeup, syncWakeup: Wakeup, logger: Logger) {
        unownedExecutor = loop.asUnownedSerialExecutor()
        self.store = store
        self.wakeup = wakeup
        self.syncWakeup = syncWakeup
        self.logger = logger
    }

    /// Works until it is stopped.
    func run() async {
        while !isStopping {
            var hasMore = false
            do {
                let released = try await store.release()
                hasMore = released.hasMore
                if released.count > 0 {
                    logger.debug("Kakao is told of imported devices", metadata: ["devices": "\(released.count)"])
                    syncWakeup.signal()
                }
            } catch {
                logger.debug("Imported devices could not be looked up", metadata: ["error": "\(error)"])
            }
            await wakeup.wait(atMost: hasMore ? DeviceImportStore.releaseInterval : Self.interval)
        }
    }

    /// Lets ``run()`` end after the statement in hand.
    func stop() {
        isStopping = true
        wakeup.signal()
    }
}
