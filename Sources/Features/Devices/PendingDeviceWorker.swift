import EventLoop
import Logging
import Postgres
import Runtime

/// Calls Kakao in the background about pending devices, for example those whose calls failed while the app waited.
struct PendingDeviceWorker: Sendable {
    /// The maximum number of concurrent calls: enough to catch up after an outage of an hour, few compared to those for
    /// pushes.
    private static let maximumConcurrentCalls: Int32 = 8
    /// The interval between two polls without a signal, which find devices that another server has left pending.
    private static let pollInterval = Duration.seconds(3)

    let registrar: DeviceRegistrar
    let logger: Logger

    func worker(on loop: EventLoop, pace: PollPace) -> BackgroundWorker {
        BackgroundWorker(
            "pending-devices",
            on: loop,
            every: Self.pollInterval,
            signal: registrar.signal,
            retryAfter: .seconds(1),
            pace: pace,
            failure: "Pending devices not claimed",
            logger: logger
        ) { worker in
            // While calls are in vain, one device finds out whether that has changed, and the others need no statement.
            let nextCall = [.registrations, .deregistrations].compactMap { registrar.availability.nextCall($0) }.max()
            if let nextCall, nextCall > worker.loop.now { return nil }
            let limit = nextCall == nil ? Self.maximumConcurrentCalls : 1
            let devices = try await registrar.store.pool.write(ClaimPendingDevices(limit: limit))
            await withDiscardingTaskGroup { group in
                for device in devices {
                    group.addTask(executorPreference: worker.loop) { await synchronize(device) }
                }
            }
            // A full claim means that more devices are probably pending.
            return devices.count == limit ? .zero : nil
        }
    }

    private func synchronize(_ device: PendingDevice) async {
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
