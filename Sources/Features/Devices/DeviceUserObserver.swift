import EventLoop
import FoundationEssentials
import Locking
import Logging
import Postgres
import Runtime
import ServiceKit

/// Withdraws devices when their user leaves the app or is erased, or when their tokens fail. Tags those of users who have added a
/// KakaoTalk channel.
struct DeviceUserObserver: UserObserver {
    let registrar: DeviceRegistrar
    /// The setting `devices.prune_after_failures`.
    let pruneAfterFailures: Int
    /// When users left the app in the last minutes, for the case that PostgreSQL loses it.
    let departures: Locked<RecentValues<Int64, Date>>
    let logger: Logger

    /// Withdraws the devices of users who have left the app, unless the service has user ids of its own.
    func apply(_ events: [UserEvent], in transaction: PostgresTransaction) async throws -> (@Sendable () -> Void)? {
        let left = events.filter { $0.kind == .left }
        guard registrar.hasKakaoUserIDs, !left.isEmpty else { return nil }
        let statement = WithdrawDepartedDevices(departures: left)
        let withdrawn = try await transaction.query(statement).first ?? 0
        return { [registrar, departures = self.departures, logger] in
            for event in left { departures.withLock { $0.store(event.happenedAt, for: event.userID) } }
            guard withdrawn > 0 else { return }
            logger.info(
                "Devices withdrawn: the user has left the app",
                metadata: [
                    "type": "\(left.map(\.type).joined(separator: " "))",
                    "user_id": "\(left.map { String($0.userID) }.joined(separator: " "))",
                    "devices": "\(withdrawn)",
                ]
            )
            registrar.signal.send()
        }
    }

    func channelsChanged(of userIDs: Set<Int64>, in transaction: PostgresTransaction) async throws {
        guard let tag = registrar.store.channelTag else { return }
        _ = try await transaction.query(TagChannelUsers(userIDs: userIDs.sorted(), tag: tag)) as [Int64]
    }

    func record(_ failure: TokenFailure) async throws -> Bool {
        let withdrawals = try await registrar.store.pool.write(
            RecordTokenFailure(failure: failure, limit: Int32(clamping: pruneAfterFailures))
        )
        if withdrawals.contains(true) {
            logger.info("Device withdrawn: its token keeps failing", metadata: ["user_id": "\(failure.userID)"])
            registrar.signal.send()
            registrar.webhooks.send()
        }
        return !withdrawals.isEmpty
    }

    func deleteData(ofUser userID: Int64, erasedAt: Date?) async throws -> Bool {
        let isDone = try await registrar.withdrawDevices(ofUser: userID, registeredUntil: erasedAt)
        try await registrar.store.pool.write(DeleteFormerDevices(userID: userID))
        return isDone
    }
}
