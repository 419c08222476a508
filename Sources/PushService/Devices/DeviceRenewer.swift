internal import EventLoop
internal import Logging

/// Has tokens registered again, in the background, before Kakao drops them.
///
/// It only asks for it: ``PendingDeviceWorker`` tells Kakao, of whichever server.
actor DeviceRenewer {
    /// How often it looks. One statement each time, for what is due within days.
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

    /// Works until it is stopped.
    func run() async {
        while !isStopping {
            do {
                let count = try await registrar.store.renew(activeWithinDays: activeWithinDays)
                if count > 0 {
                    logger.debug("Tokens are registered again", metadata: ["devices": "\(count)"])
                    registrar.signal.send()
                }
            } catch {
                logger.debug("Tokens that expire could not be looked up", metadata: ["error": "\(error)"])
            }
            await signal.wait(atMost: Self.interval)
        }
    }

    /// Lets ``run()`` end after the statement in hand.
    func stop() {
        isStopping = true
        signal.send()
    }
}
