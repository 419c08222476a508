internal import EventLoop
internal import Logging

/// Calls Kakao in the background about pending devices, for example those whose calls failed while the app waited.
actor PendingDeviceWorker {
    /// The maximum number of concurrent calls: enough to catch up after an outage of an hour, few compared to those for
    /// pushes.
    private static let concurrency = 8
    /// The interval between two polls without a signal, which find devices that another server has left pending.
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

    /// Runs until ``stop()`` is called.
    func run() async {
        while !isStopping {
            var claimed = 0
            do {
                let devices = try await store.claimPending(limit: Self.concurrency)
                claimed = devices.count
                await withDiscardingTaskGroup { group in
                    for device in devices {
                        group.addTask(executorPreference: self.loop) { await self.synchronize(device) }
                    }
                }
            } catch {
                logger.debug("Pending devices not claimed", metadata: ["error": "\(error)"])
            }
            // A full claim means that more devices are probably pending.
            if claimed < Self.concurrency, !isStopping { await registrar.signal.wait(atMost: Self.pollInterval) }
        }
    }

    /// Lets ``run()`` return after the calls in flight.
    func stop() {
        isStopping = true
        registrar.signal.send()
    }

    private nonisolated func synchronize(_ device: PendingDevice) async {
        do {
            if case .rejected(let error) = try await registrar.synchronize(device) {
                logger.warning(
                    device.isRenewal
                        ? "Token renewal rejected by Kakao: device kept"
                        : "Registration rejected by Kakao: device withdrawn",
                    metadata: ["user_id": "\(device.key.userID)", "kakao": "\(error)"]
                )
            }
        } catch {
            logger.warning("Kakao response not stored", metadata: ["error": "\(error)"])
        }
    }
}
