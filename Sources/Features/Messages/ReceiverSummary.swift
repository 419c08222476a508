import Endpoints
import FoundationEssentials
import Postgres
import Schemas

/// A receiver as it is shown.
struct ReceiverSummary: Sendable {
    let position: Int32
    let userID: Int64?
    var uuid: String?
    var state: ReceiverState
    var attempts: Int32 = 0
    var mayRepeat = false
    var code: Int32?
    var reason: Reason?
    var kakaoMessage: String?
    /// The scopes that the sender must agree to.
    var scopes: [String] = []
    var retryAt: Date?
    var finishedAt: Date?
    /// The page where the sender logs in and agrees to the scopes; `nil` if that is of no use, or there is none.
    var consentURL: String?

    static let shape = Shape<ReceiverSummary>(
        "MessageReceiver",
        [
            .nullable("user_id", .userID, "The user id, if it is known.", \.userID),
            .nullable("uuid", .text, "Kakao's id of the receiver among the sender's friends, if it is known.", \.uuid),
            .member("state", .receiverState, "The state.", \.state),
            .member("attempts", Kind<Int32>.number, "The number of requests.", \.attempts),
            .member("may_repeat", .boolean, "Whether the receiver may have been reached twice.", \.mayRepeat),
            .nullable("code", Kind<Int32>.number, "Kakao's error code.", \.code),
            .nullable("reason", .reason, "Why the receiver was not reached, or is not reached yet.", \.reason),
            .nullable("remedy", .text, "What to do about it.") { $0.reason?.remedy },
            .nullable("kakao_message", .text, "Kakao's words.", \.kakaoMessage),
            .array("required_scopes", .text, "The scopes that the sender must agree to.", \.scopes),
            .nullable("consent_url", .text, "Where the sender logs in and agrees to the scopes.", \.consentURL),
            .nullable("retry_at", .time, "When it is tried again.", \.retryAt),
            .nullable("finished_at", .time, "When the outcome was stored.", \.finishedAt),
        ]
    )

    /// Sets where the sender can remove the reason.
    mutating func setConsentURL(_ url: ([String]) -> String?) {
        if reason == .loginRequired || reason == .missingScope { consentURL = url(scopes) }
    }
}

// MARK: Statements

/// Lists receivers of a message in the order of the request.
struct ListReceivers: PostgresStatement {
    static let sql: SQL = """
        SELECT position, user_id, uuid, state, attempts, may_repeat, code, reason, kakao_message,
            COALESCE(scopes, '{}'), CASE WHEN state = 'waiting' THEN due_at END, finished_at
        FROM message_receivers
        WHERE message_id = $1
            AND position > $2
            AND ($3::text IS NULL OR state = $3)
        ORDER BY position
        LIMIT $4
        """

    let messageID: UUID
    /// `nil` for all states.
    let state: ReceiverState?
    /// The last position of the previous page; -1 for the first page.
    let after: Int32
    let limit: Int

    var parameters: [PostgresValue] {
        [.uuid(messageID), .int32(after), .text(state?.rawValue), .int64(Int64(limit))]
    }

    static func decode(_ row: PostgresRow) throws -> ReceiverSummary {
        try row.decode { column in
            try ReceiverSummary(
                position: column.next(),
                userID: column.next(),
                uuid: column.next(),
                state: ReceiverState(rawValue: column.next()) ?? .pending,
                attempts: column.next(),
                mayRepeat: column.next(),
                code: column.next(),
                reason: column.next(String?.self).flatMap(Reason.init(rawValue:)),
                kakaoMessage: column.next(),
                scopes: column.next(),
                retryAt: column.next(),
                finishedAt: column.next()
            )
        }
    }
}
