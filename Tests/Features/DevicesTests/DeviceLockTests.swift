import Endpoints
import FoundationEssentials
import KakaoAPI
import Postgres
import ServiceKit
import ServiceTesting
import TestSupport
import Testing

@testable import Devices

/// The order in which statements lock devices: by key, so that no two of them wait for each other.
@Suite(.timeLimit(.minutes(5))) struct DeviceLockTests {
    /// A statement that locks the devices `a` and `b` of user 1.
    private enum Statement: CaseIterable {
        case registerAndDisplace
        case displaceTwo
        case registerTwo
        case confirmAndDisplace
        case repeatTwo
        case confirmRepetitions
        case withdrawUser
        case withdrawDeparted
        case withdrawContested
        case recordFailure
        case reconcile

        /// Whether both devices have the token of `b`.
        var sharesToken: Bool { [.confirmAndDisplace, .withdrawContested, .recordFailure].contains(self) }

        private static func key(_ device: String, of userID: Int64 = 1) -> DeviceKey {
            DeviceKey(userID: userID, deviceID: device, pushType: .fcm)
        }

        private static func confirmation(_ device: String, _ lease: UUID) -> DeviceConfirmation {
            let pending = PendingDevice(
                key: key(device),
                pushToken: "token-b",
                isWithdrawn: false,
                revision: 1,
                lease: lease
            )
            return DeviceConfirmation(device: pending, expiresAt: nil, renewAt: nil)
        }

        /// Runs the statement with its items in the opposite order of their keys.
        func run(_ pool: PostgresPool, lease: UUID) async throws {
            switch self {
            case .registerAndDisplace:
                try await pool.write(
                    RegisterDevices(registrations: [DeviceRegistration(key: Self.key("a"), pushToken: "token-b")])
                )
            case .displaceTwo:
                try await pool.write(
                    RegisterDevices(registrations: [
                        DeviceRegistration(key: Self.key("c", of: 3), pushToken: "token-b"),
                        DeviceRegistration(key: Self.key("c", of: 2), pushToken: "token-a"),
                    ])
                )
            case .registerTwo:
                try await pool.write(
                    RegisterDevices(registrations: [
                        DeviceRegistration(key: Self.key("b"), pushToken: "new-b"),
                        DeviceRegistration(key: Self.key("a"), pushToken: "new-a"),
                    ])
                )
            case .confirmAndDisplace:
                try await pool.write(ConfirmDevices(confirmations: [Self.confirmation("b", lease)]))
            case .repeatTwo:
                try await pool.write(
                    RepeatRegistrations(registrations: [
                        DeviceRegistration(key: Self.key("b"), pushToken: "token-b"),
                        DeviceRegistration(key: Self.key("a"), pushToken: "token-a"),
                    ])
                )
            case .confirmRepetitions:
                let confirmations = ["b", "a"].map { Self.confirmation($0, lease) }
                try await pool.write(ConfirmRepetitions(confirmations: confirmations))
            case .withdrawUser:
                try await pool.write(WithdrawUserDevices(userID: 1, registeredUntil: nil))
            case .withdrawDeparted:
                let departure = UserEvent(userID: 1, kind: .left, type: "unlink", happenedAt: Date() + 60)
                _ = try await pool.write(WithdrawDepartedDevices(departures: [departure]))
            case .withdrawContested:
                try await pool.write(WithdrawContestedDevices(tokens: ["token-b"]))
            case .recordFailure:
                let failure = TokenFailure(
                    userID: 1,
                    pushToken: "token-b",
                    date: Date() + 60,
                    receivedAt: Date() + 60
                )
                try await pool.write(RecordTokenFailure(failure: failure, limit: 5))
            case .reconcile:
                try await pool.write(ReconcileDevices(userID: 1, listed: [], isDryRun: false))
            }
        }
    }

    @Test("A statement that waits for its first device holds no other", arguments: Statement.allCases)
    private func order(statement: Statement) async throws {
        try await TestDatabase.with { database in
            let lease = UUID.v7()
            // `b` lies before `a` in the table.
            for device in ["b", "a"] {
                try await database.pool.write(
                    """
                    INSERT INTO devices (user_id, device_id, push_type, push_token, kakao_revision, lease)
                    VALUES (1, $1, 'fcm', $2, 1, $3)
                    """,
                    [.text(device), .text(statement.sharesToken ? "token-b" : "token-\(device)"), .uuid(lease)]
                )
            }
            let run = try await database.pool.withTransaction { transaction in
                try await transaction.query("SELECT FROM devices WHERE device_id = 'a' FOR UPDATE")
                let run = Task { try await statement.run(database.pool, lease: lease) }
                try await transaction.execute(script: DeviceTests.waitUntilAwaited)
                let waiting = try await transaction.query(
                    "SELECT count(*) FROM pg_locks WHERE NOT granted AND pg_backend_pid() = ANY (pg_blocking_pids(pid))"
                )
                #expect(try waiting.first?.decode(Int64.self) == 1)
                let free = try await transaction.query(
                    "SELECT count(*) FROM (SELECT FROM devices WHERE device_id = 'b' FOR UPDATE SKIP LOCKED) AS free"
                )
                #expect(try free.first?.decode(Int64.self) == 1)
                return run
            }
            try await run.value
        }
    }
}
