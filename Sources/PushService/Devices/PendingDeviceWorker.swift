internal import EventLoop
internal import Logging

/// Tells Kakao, in the background, what it could not be told while the app waited.
actor PendingDeviceWorker {
    /// Devices that Kakao is told about at a time: enough to catch up after an hour without Kakao, few beside the pushes.
    private static let concurrency = 8
    /// How often it looks without having been woken: for what another server has left behind.
    private static let pollInterval = Duration.seconds(3)

    nonisolated let unownedExecutor: UnownedSerialExecutor
    private let loop: EventLoop
    private let store: DeviceStore
    private let registrar: DeviceRegistrar
    private let logger: Logger
    private var isStopping = false

    init(loop: EventLoop, registrar: DeviceRegistrar, logger: Logger) {
        self.loop = loop
        unownedExecutor = loop.asUnownedSerialExecutor()
        store = registrar.store
        self.registrar = registrar
        self.logger = logger
    }

    /// Works until it is stopped.
    func run() async {
        while !isStopping {
            var settled = 0
            do {
                let devices = try await store.claimPending(limit: Self.concurrency)
                settled = devices.count
                await withDiscardingTaskGroup { group in
                    for device in devices {
                        group.addTask(executorPreference: self.loop) { await self.settle(device) }
                    }
                }
            } catch {
                logger.debug("Devices could not be looked up", metadata: ["error": "\(error)"])
            }
            // A full hand means that there is probably more.
            if settled < Self.concurrency, !isStopping { await registrar.signal.wait(atMost: Self.pollInterval) }
        }
    }

    /// Lets ``run()`` end once what is under way is done.
    func stop() {
        isStopping = true
        registrar.signal.send()
    }

    private nonisolated func settle(_ device: PendingDevice) async {
        do {
            if case .rejected(let error) = try await registrar.synchronize(device) {
                logger.warning(
                    device.isRenewal
                        ? "Kakao refuses to renew a token; the device stays"
                        : "Kakao refuses a registration; the device is withdrawn",
                    metadata: ["user_id": "\(device.key.userID)", "kakao": "\(error)"]
                )
            }
        } catch {
            logger.warning("What Kakao answered could not be stored", metadata: ["error": "\(error)"])
        }
    }
}
