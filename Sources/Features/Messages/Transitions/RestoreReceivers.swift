import FoundationEssentials
import Postgres

extension MessageStore {
    /// The number of receivers that are compared by one statement.
    private static let comparedAtOnce = 5000

    /// Compares what is known of receivers with the database, and stores again what it does not have.
    ///
    /// - Returns: The number of receivers whose result was missing.
    func restore(_ known: KnownReceivers) async throws -> Int {
        let receivers = known.all
        var missing = 0
        for start in stride(from: 0, to: receivers.count, by: Self.comparedAtOnce) {
            let some = Array(receivers[start..<min(start + Self.comparedAtOnce, receivers.count)])
            missing += Int(try await pool.write(RestoreReceivers(receivers: some)).first ?? 0)
        }
        return missing
    }
}

/// Stores again whom Kakao has reached, or may have reached, where PostgreSQL has lost it. Returns the number of those receivers, and
/// of those whose message is lost.
///
/// Whoever was reached is `sent`. Whoever may have been is sent again and marked; or is uncertain, if the message is sent at most
/// once.
struct RestoreReceivers: PostgresStatement {
    static let sql: SQL = """
        WITH given AS (
            SELECT message_id, position, bool_or(is_sent) AS is_sent
            FROM unnest($1::uuid[], $2::int[], $3::bool[]) AS given (message_id, position, is_sent)
            GROUP BY message_id, position
        ),
        found AS (
            SELECT given.message_id, given.position, given.is_sent, message.delivery = 'at_least_once' AS is_repeatable,
                message.state = 'active' AS is_active
            FROM given
            JOIN message_receivers AS receiver USING (message_id, position)
            JOIN messages AS message ON message.id = given.message_id
            WHERE receiver.state IN ('pending', 'waiting', 'sending')
                AND NOT receiver.may_repeat
            ORDER BY given.message_id, given.position
            FOR UPDATE OF receiver
        ),
        restored AS (
            UPDATE message_receivers AS receiver
            SET state = CASE
                    WHEN found.is_sent THEN 'sent'
                    WHEN NOT is_repeatable THEN 'uncertain'
                    WHEN is_active THEN 'pending'
                    ELSE 'skipped'
                END,
                due_at = CASE WHEN NOT found.is_sent AND is_repeatable AND is_active THEN now() END,
                finished_at = CASE WHEN found.is_sent OR NOT is_repeatable OR NOT is_active THEN now() END,
                may_repeat = NOT found.is_sent AND is_repeatable,
                attempts = GREATEST(receiver.attempts, 1),
                lease = NULL,
                code = NULL,
                reason = CASE WHEN NOT found.is_sent THEN 'server_stopped' END,
                kakao_message = NULL
            FROM found
            -- By key: a row that was changed while this statement waited for its lock has a new place.
            WHERE receiver.message_id = found.message_id
                AND receiver.position = found.position
            RETURNING 1
        )
        SELECT (SELECT count(*) FROM restored)
            + (SELECT count(*) FROM given WHERE NOT EXISTS (SELECT 1 FROM messages WHERE id = message_id))
        """

    let receivers: [KnownReceivers.Receiver]

    var parameters: [PostgresValue] {
        [
            .uuids(receivers.map(\.messageID)), .int32s(receivers.map(\.position)), .bools(receivers.map(\.isSent)),
        ]
    }

    static func decode(_ row: PostgresRow) throws -> Int64 { try row.decode(Int64.self) }
}
