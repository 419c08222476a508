internal import EventLoop
internal import Logging

/// A background worker that schedules the registration of imported devices at Kakao, at a bounded rate.
///
/// It only makes the devices due. The ``PendingDeviceWorker`` of any server calls Kakao.
actor ImportedDevicePacer {
    /// How often the database is searched for devices from imports of other servers.
    private static let interval = Duration.seconds(60)

    nonisolated let unownedExecutor: UnownedSerialExecutor
    private let store: DeviceImportStore
    private let signal: Signal
    private let registrationSignal: Signal
    private let logger: Logger
    private var isStopping = false

    /// - Parameters:
    ///   - signal: Signalled when an import has ended.
    ///   - registrationSignal: Wakes the worker that calls Kakao.
    init(loop: EventLoop, store: DeviceImportStore, signal: Signal, registrationSignal: Signal, logger: Logger) {
        unownedExecutor = loop.asUnownedSerialExecutor()
        self.store = store
        self.signal = signal
        self.registrationSignal = registrationSignal
        self.logger = logger
    }

    /// Runs until it is stopped.
    func run() async {
        while !isStopping {
            var hasMore = false
            do {
                let released = try await store.release()
                hasMore = released.hasMore
                if released.count > 0 {
                    logger.debug("Imported devices scheduled", metadata: ["devices": "\(released.count)"])
                    registrationSignal.send()
                }
            } catch {
                logger.debug("Imported device look-up failed", metadata: ["error": "\(error)"])
            }
            await signal.wait(atMost: hasMore ? DeviceImportStore.releaseInterval : Self.interval)
        }
    }

    /// Makes ``run()`` return after the current statement.
    func stop() {
        isStopping = true
        signal.send()
    }
}
