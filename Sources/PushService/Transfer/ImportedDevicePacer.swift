internal import EventLoop
internal import Logging

/// Has Kakao told of imported devices, in the background and at a bounded rate.
///
/// It only gives them their turn: ``PendingDeviceWorker`` tells Kakao, of whichever server.
actor ImportedDevicePacer {
    /// How often it looks for what an import of another server has left.
    private static let interval = Duration.seconds(60)

    nonisolated let unownedExecutor: UnownedSerialExecutor
    private let store: DeviceImportStore
    private let signal: Signal
    private let registrationSignal: Signal
    private let logger: Logger
    private var isStopping = false

    /// - Parameters:
    ///   - signal: Signalled when an import has ended.
    ///   - registrationSignal: Has Kakao told.
    init(loop: EventLoop, store: DeviceImportStore, signal: Signal, registrationSignal: Signal, logger: Logger) {
        unownedExecutor = loop.asUnownedSerialExecutor()
        self.store = store
        self.signal = signal
        self.registrationSignal = registrationSignal
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
                    registrationSignal.send()
                }
            } catch {
                logger.debug("Imported devices could not be looked up", metadata: ["error": "\(error)"])
            }
            await signal.wait(atMost: hasMore ? DeviceImportStore.releaseInterval : Self.interval)
        }
    }

    /// Lets ``run()`` end after the statement in hand.
    func stop() {
        isStopping = true
        signal.send()
    }
}
