import EventLoop
import Logging
import Postgres
import ServiceKit

/// Withdraws devices when their user leaves the app or is erased, or when their tokens fail.
struct DeviceUserObserver: UserObserver {
    let registrar: DeviceRegistrar
    /// The setting `devices.prune_after_failures`.
    let pruneAfterFailures: Int
    let logger: Logger

    /// Withdraws the devices of users who have left the app, unless the service has user ids of its own.
    func apply(_ events: [UserEvent], in transaction: PostgresTransaction) async throws -> (@Sendable () -> Void)? {
        let departures = events.filter { $0.kind == .left }
        guard registrar.hasKakaoUserIDs, !departures.isEmpty else { return nil }
        let statement = WithdrawDepartedDevices(departures: departures)
        guard let withdrawn = try await transaction.query(statement).first, withdrawn > 0 else { return nil }
        return { [registrar, logger] in
            logger.info(
                "Devices withdrawn: the user has left the app",
                metadata: [
                    "type": "\(departures.map(\.type).joined(separator: " "))",
                    "user_id": "\(departures.map { String($0.userID) }.joined(separator: " "))",
                    "devices": "\(withdrawn)",
                ]
            )
            registrar.signal.send()
        }
    }

    func record(_ failure: TokenFailure) async throws -> Bool {
        let withdrawals = try await registrar.store.pool.write(
            RecordTokenFailure(failure: failure, limit: Int32(clamping: pruneAfterFailures))
        )
        if withdrawals.contains(true) {
            logger.info("Device withdrawn: its token keeps failing", metadata: ["user_id": "\(failure.userID)"])
            registrar.signal.send()
        }
        return !withdrawals.isEmpty
    }

    func deleteData(ofUser userID: Int64) async throws -> Bool {
        let isDone = try await registrar.withdrawDevices(ofUser: userID)
        try await registrar.store.pool.write(DeleteDeviceWithdrawals(userID: userID))
        return isDone
    }
}
