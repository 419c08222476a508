import EventLoop
import Logging
import Postgres
import Runtime

extension DeviceRegistrar {
    /// Returns the worker that schedules renewals of push tokens before the tokens expire at Kakao. It only makes the
    /// devices pending; the ``PendingDeviceWorker`` of any server calls Kakao.
    ///
    /// - Parameter activeWithinDays: The setting `devices.active_within_days`.
    func renewer(on loop: EventLoop, activeWithinDays: Int, pace: PollPace, logger: Logger) -> BackgroundWorker {
        BackgroundWorker(
            "renew-devices",
            on: loop,
            // A pass is one statement, and schedules renewals days before the tokens expire.
            every: .seconds(60),
            pace: pace,
            failure: "Token renewals not scheduled",
            logger: logger
        ) { _ in
            let renewal = RenewDevices(activeWithinDays: Int32(clamping: activeWithinDays))
            if let count = try await store.pool.write(renewal).first, count > 0 {
                logger.debug("Token renewals scheduled", metadata: ["devices": "\(count)"])
                signal.send()
            }
            return nil
        }
    }
}
