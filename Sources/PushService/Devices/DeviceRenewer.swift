internal import EventLoop
internal import Logging

/// Schedules renewals of push tokens in the background, before the tokens expire at Kakao.
///
/// The calls to Kakao are made by the ``PendingDeviceWorker`` of any server.
actor DeviceRenewer {
    /// The interval between two passes. A pass is one statement, and schedules renewals days before the tokens expire.
    private static let interval = Duration.seconds(60)

    nonisolated let unownedExecutor: UnownedSerialExecutor
    private let registrar: DeviceRegistrar
    private let activeWithinDays: Int
    private let logger: Logger
    private let signal: Signal
    private var isStopping = false

    init(loop: EventLoop, registrar: DeviceRegistrar, activeWithinDays: Int, logger: Logger) {
        unownedExecutor = loop.asUnownedSerialExecutor()
        self.registrar = registrar
        self.activeWithinDays = activeWithinDays
        self.logger = logger
        signal = Signal(loop: loop)
    }

    /// Runs until ``stop()`` is called.
    func run() async {
        while !isStopping {
            do {
                let count = try await registrar.store.renew(activeWithinDays: activeWithinDays)
                if count > 0 {
                    logger.debug("Token renewals scheduled", metadata: ["devices": "\(count)"])
                    registrar.signal.send()
                }
            } catch {
                logger.debug("Token renewals not scheduled", metadata: ["error": "\(error)"])
            }
            await signal.wait(atMost: Self.interval)
        }
    }

    /// Lets ``run()`` return after the current statement.
    func stop() {
        isStopping = true
        signal.send()
    }
}
