import EventLoop
import Logging
import Runtime

extension DeviceImportStore {
    /// Returns the worker that schedules the registration of imported devices at Kakao, at a bounded rate. It only makes
    /// the devices due; the ``PendingDeviceWorker`` of any server calls Kakao.
    ///
    /// - Parameters:
    ///   - signal: Signalled when an import has ended.
    ///   - registrationSignal: Wakes the worker that calls Kakao.
    func pacer(
        on loop: EventLoop,
        signal: Signal,
        registrationSignal: Signal,
        pace: PollPace,
        logger: Logger
    ) -> BackgroundWorker {
        BackgroundWorker(
            "release-imported-devices",
            on: loop,
            // Devices from imports of other servers.
            every: .seconds(60),
            signal: signal,
            pace: pace,
            failure: "Imported device look-up failed",
            logger: logger
        ) { _ in
            let released = try await release()
            if released.count > 0 {
                logger.debug("Imported devices scheduled", metadata: ["devices": "\(released.count)"])
                registrationSignal.send()
            }
            return released.hasMore ? Self.releaseInterval : nil
        }
    }
}
