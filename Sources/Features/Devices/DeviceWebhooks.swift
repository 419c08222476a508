import Endpoints
import FoundationEssentials
import KakaoAPI
import Postgres
import Runtime
import Schemas

/// The cause of a withdrawal. The statements in `Transitions` name it.
enum WithdrawalCause: String, CaseIterable, Sendable {
    /// An app or an operator has withdrawn the device.
    case deregistered
    /// The token was registered for another device or user.
    case tokenMoved = "token_moved"
    /// Kakao could not deliver to the token repeatedly.
    case tokenFailed = "token_failed"
    /// Kakao has rejected the registration.
    case rejected
    /// The user has left the app.
    case userLeft = "user_left"
    /// The user has registered more than 100 devices; this was the oldest one.
    case tooManyDevices = "too_many_devices"
}

/// A withdrawn device as a webhook shows it.
private struct WithdrawnDevice: Sendable {
    let key: DeviceKey
    let cause: String
    let withdrawnAt: Date

    static let shape = Shape<WithdrawnDevice>(
        "WithdrawnDevice",
        [
            .member("user_id", .userID, "The user.", \.key.userID),
            .member("device_id", .text, "The device.", \.key.deviceID),
            .member("push_type", .text(oneOf: PushType.storedNames), "Its push type.", \.key.pushType.storedName),
            .member("cause", .text(oneOf: WithdrawalCause.allCases.map(\.rawValue)), "Why.", \.cause),
            .member("withdrawn_at", .time, "When.", \.withdrawnAt),
        ]
    )
}

// MARK: Statements

/// Lists withdrawn devices in the order of their transactions.
struct ListDeviceWebhooks: WebhookStatement {
    static let sql: SQL = """
        SELECT event_xid::text, number, user_id, device_id, push_type, cause, withdrawn_at
        FROM device_withdrawals AS withdrawal
        WHERE (event_xid, number) >= ($1::text::xid8, $2::text::bigint)
            AND event_xid < COALESCE($3::text::xid8, webhook_horizon())
        ORDER BY withdrawal.event_xid, number
        LIMIT $4
        """

    let range: WebhookRange

    static func decode(_ row: PostgresRow) throws -> WebhookEvent {
        try row.decode { column in
            let xid = try column.next(String.self)
            let number = try column.next(Int64.self)
            let device = try WithdrawnDevice(
                key: DeviceKey(&column),
                cause: column.next(),
                withdrawnAt: column.next()
            )
            return WebhookEvent(
                position: WebhookPosition(xid: xid, key: String(number)),
                type: .deviceWithdrawn,
                happenedAt: device.withdrawnAt,
                storedAt: device.withdrawnAt,
                userID: device.key.userID,
                data: WithdrawnDevice.shape.json(device)
            )
        }
    }
}

/// Deletes the records of a user's withdrawn devices. That the user is erased is recorded in `erased_users`.
struct DeleteDeviceWithdrawals: PostgresStatement {
    static let sql: SQL = """
        WITH former AS (
            DELETE FROM former_devices
            WHERE user_id = $1
        )
        DELETE FROM device_withdrawals
        WHERE user_id = $1
        """

    let userID: Int64

    var parameters: [PostgresValue] { [.int64(userID)] }
}

/// Deletes up to `limit` records of devices that were withdrawn more than `retentionDays` ago. Skips rows that another server is
/// deleting.
struct DeleteOldDeviceWithdrawals: PostgresStatement {
    static let sql: SQL = """
        DELETE FROM device_withdrawals
        WHERE ctid = ANY (
            ARRAY(
                SELECT ctid
                FROM device_withdrawals
                WHERE withdrawn_at < now() - make_interval(days => $1)
                LIMIT $2
                FOR UPDATE SKIP LOCKED
            )
        )
        """

    let retentionDays: Int
    let limit: Int

    var parameters: [PostgresValue] { [.int32(Int32(clamping: retentionDays)), .int64(Int64(limit))] }
}
