import Endpoints
import FoundationEssentials
import KakaoAPI
import Postgres
import Runtime
import Schemas

/// The webhooks about withdrawn devices, which `record_withdrawal` stores.
enum DeviceWebhooks {
    static let data = [WebhookData([.deviceWithdrawn], ReadDeviceWebhooks.self)]
}

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

/// Reads devices as they were withdrawn.
struct ReadDeviceWebhooks: WebhookDataStatement {
    static let sql: SQL = """
        SELECT webhook.id, device.user_id, device.device_id, device.push_type, device.cause, device.withdrawn_at
        FROM webhook_events AS webhook
        CROSS JOIN LATERAL jsonb_to_record(webhook.data) AS device (
            user_id bigint, device_id text, push_type text, cause text, withdrawn_at timestamptz
        )
        WHERE webhook.id = ANY ($1)
        """

    let events: [UUID]

    static func decode(_ row: PostgresRow) throws -> WebhookData.Item {
        try row.decode { column in
            let event = try column.next(UUID.self)
            let device = try WithdrawnDevice(
                key: DeviceKey(&column),
                cause: column.next(),
                withdrawnAt: column.next()
            )
            return (event, WithdrawnDevice.shape.json(device))
        }
    }
}
