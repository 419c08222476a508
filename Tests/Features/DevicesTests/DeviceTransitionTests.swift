import EventLoop
import FoundationEssentials
import KakaoAPI
import Postgres
import ServiceKit
import ServiceTesting
import TestSupport
import Testing

@testable import Devices

/// The state machine of a device, as ``DeviceEvent`` describes it, against the statements and the database.
@Suite struct DeviceTransitionTests {
    @Test("Every event changes a device in every state as the table says", arguments: DeviceEvent.allCases)
    func walk(event: DeviceEvent) async throws {
        try await TestDatabase.with { database in
            for state in DeviceState.allCases {
                // The devices of other states are not to be claimed or renewed with it.
                try await database.pool.write("DELETE FROM devices")
                let device = StoredDevice(pool: database.pool, state: state)
                try await device.insert()
                let before = try await device.columns()
                try await device.run(event)
                let after = try await device.columns()
                let expected = event.transitions[state] ?? state
                #expect(try await device.readState() == expected, "\(event) in \(state)")
                guard state != .unknown, expected != .unknown else { continue }
                let changed = Set(before.keys.filter { before[$0] != after[$0] })
                if event.transitions[state] == nil {
                    #expect(changed.isEmpty, "\(event) in \(state)")
                } else {
                    #expect(changed.isSubset(of: event.columns), "\(event) in \(state): \(changed)")
                    #expect(!changed.isEmpty, "\(event) in \(state)")
                }
            }
        }
    }

    @Test("Each event that withdraws a registered device sets the columns of a withdrawal")
    func withdrawals() async throws {
        try await TestDatabase.with { database in
            for event in DeviceEvent.allCases where event.transitions[.registered] == .withdrawn {
                try await database.pool.write("DELETE FROM devices")
                let device = StoredDevice(pool: database.pool, state: .registered)
                try await device.insert()
                let before = try await device.columns()
                try await device.run(event)
                let after = try await device.columns()
                let changed = Set(before.keys.filter { before[$0] != after[$0] })
                // The time of the last registration stays unless an app, a user or an operator withdraws the device.
                let keepsTime = event == .fail || event == .reject
                let expected = DeviceEvent.withdrawal.subtracting(keepsTime ? ["updated_at"] : [])
                #expect(changed.intersection(DeviceEvent.withdrawal) == expected, "\(event)")
            }
        }
    }

    @Test("The result of a call under a lease that another server has taken changes nothing")
    func expiredLease() async throws {
        try await TestDatabase.with { database in
            let events: [DeviceEvent] = [.confirm, .confirmRepetition, .postpone, .reject, .rejectRenewal]
            for event in events {
                for state in DeviceState.allCases where state != .unknown {
                    try await database.pool.write("DELETE FROM devices")
                    let device = StoredDevice(pool: database.pool, state: state)
                    try await device.insert()
                    try await database.pool.write("UPDATE devices SET lease = gen_random_uuid()")
                    let before = try await device.columns()
                    try await device.run(event)
                    #expect(try await device.columns() == before, "\(event) in \(state)")
                }
            }
        }
    }
}

/// A device in one of the states. None of its columns has the value that an event gives it.
private struct StoredDevice {
    private static let userID: Int64 = 1
    private static let token = "token"

    let pool: PostgresPool
    let state: DeviceState
    private let lease = UUID()
    private let key = DeviceKey(userID: userID, deviceID: "device", pushType: .fcm)

    init(pool: PostgresPool, state: DeviceState) {
        self.pool = pool
        self.state = state
    }

    func insert() async throws {
        guard state != .unknown else { return }
        try await pool.write(
            """
            INSERT INTO devices (
                user_id, device_id, push_type, push_token, locale, created_at, updated_at, withdrawn, revision,
                kakao_revision, renewal_revision, lease, lease_ends_at, attempts, next_attempt_at, expires_at, renew_at,
                failures, last_failure_at, failure_dates, authorized_at
            )
            SELECT $1, $2, 'fcm', $3, 'ko', yesterday, yesterday, $4 = 'withdrawn', 7,
                CASE WHEN $4 = 'registered' THEN 7 ELSE 6 END, CASE WHEN $4 = 'renewing' THEN 7 END, $5,
                yesterday, 3, yesterday, now() + interval '9 days', yesterday, 1, yesterday, ARRAY[yesterday], yesterday
            FROM (SELECT now() - interval '1 day' AS yesterday) AS time
            """,
            [.int64(key.userID), .text(key.deviceID), .text(Self.token), .text(state.rawValue), .uuid(lease)]
        )
    }

    /// Its columns as PostgreSQL writes them in JSON.
    func columns() async throws -> [String: String] {
        try await pool.columns(ofRow: "SELECT * FROM devices WHERE user_id = $1", [.int64(Self.userID)])
    }

    func readState() async throws -> DeviceState {
        let rows = try await pool.read(
            """
            SELECT CASE
                    WHEN withdrawn THEN 'withdrawn'
                    WHEN kakao_revision = revision THEN 'registered'
                    WHEN renewal_revision = revision THEN 'renewing'
                    ELSE 'pending'
                END
            FROM devices
            WHERE user_id = $1
            """,
            [.int64(Self.userID)]
        )
        guard let row = rows.first else { return .unknown }
        return try #require(DeviceState(rawValue: row.decode(String.self)))
    }

    func run(_ event: DeviceEvent) async throws {
        let pending = PendingDevice(
            key: key,
            pushToken: Self.token,
            isWithdrawn: state == .withdrawn,
            revision: 7,
            lease: lease
        )
        let confirmation = DeviceConfirmation(device: pending, expiresAt: Date() + 86_400, renewAt: Date() + 3600)
        let authorizedAt = MonotonicTime.now
        switch event {
        case .register:
            try await pool.write(
                RegisterDevices(registrations: [
                    DeviceRegistration(key: key, pushToken: "new", locale: "en", authorizedAt: authorizedAt)
                ])
            )
        case .repeatRegistration:
            let registration = DeviceRegistration(
                key: key,
                pushToken: Self.token,
                locale: "en",
                authorizedAt: authorizedAt
            )
            try await pool.write(RepeatRegistrations(registrations: [registration]))
        case .displace:
            let other = DeviceKey(userID: Self.userID + 1, deviceID: "other", pushType: .fcm)
            try await pool.write(
                RegisterDevices(registrations: [DeviceRegistration(key: other, pushToken: Self.token)])
            )
        case .withdraw: try await pool.write(WithdrawDevice(key: key, keyName: nil, addsUnknown: true))
        case .withdrawUser: try await pool.write(WithdrawUserDevices(userID: Self.userID, registeredUntil: nil))
        case .leave:
            let departure = UserEvent(userID: Self.userID, kind: .left, type: "unlink", happenedAt: Date())
            _ = try await pool.write(WithdrawDepartedDevices(departures: [departure]))
        case .fail:
            let failure = TokenFailure(
                userID: Self.userID,
                pushToken: Self.token,
                date: Date() - 60,
                receivedAt: Date()
            )
            try await pool.write(RecordTokenFailure(failure: failure, limit: 2))
        case .claim: try await pool.write(ClaimPendingDevices(limit: 10))
        case .confirm: try await pool.write(ConfirmDevices(confirmations: [confirmation]))
        case .confirmRepetition: try await pool.write(ConfirmRepetitions(confirmations: [confirmation]))
        case .postpone: try await pool.write(PostponeDevice(device: pending, delay: .seconds(60)))
        case .reject: try await pool.write(RejectRegistration(device: pending))
        case .rejectRenewal: try await pool.write(RejectRenewal(device: pending))
        case .renew: try await pool.write(RenewDevices(activeWithinDays: 30))
        case .reconcile: try await pool.write(ReconcileDevices(userID: Self.userID, listed: [], isDryRun: false))
        case .restore:
            try await pool.write(
                RestoreRegistration(
                    registration: DeviceRegistration(
                        key: key,
                        pushToken: "new",
                        locale: "en",
                        authorizedAt: authorizedAt
                    ),
                    registeredAt: Date(),
                    hasKakaoUserIDs: true
                )
            )
        case .restoreWithdrawal:
            try await pool.write(
                RestoreWithdrawal(
                    change: DeviceChange(key: key, pushToken: Self.token, isWithdrawn: true, changedAt: Date())
                )
            )
        }
    }
}
