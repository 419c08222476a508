import Endpoints
import FoundationEssentials
import Postgres
import Runtime

extension MessageStore {
    /// The number of receivers that are compared by one statement.
    private static let comparedAtOnce = 5000

    /// Compares what is known of receivers with the database, and stores again what it does not have.
    ///
    /// - Parameter report: Records the number of receivers whose result is missing, and the messages that are.
    func restore(_ known: KnownReceivers, _ report: LostCommits.Report) async throws {
        let receivers = known.all
        var lost: [KnownReceivers.Receiver] = []
        var missing = 0
        var gone: Set<UUID> = []
        for start in stride(from: 0, to: receivers.count, by: Self.comparedAtOnce) {
            let some = Array(receivers[start..<min(start + Self.comparedAtOnce, receivers.count)])
            for found in try await pool.read(FindLostReceivers(receivers: some)) {
                if found.isProof { missing += 1 }
                if found.isMessageLost { gone.insert(some[found.index].messageID) }
                lost.append(some[found.index])
            }
        }
        try await report(missing, gone.sorted().map { "message \($0.lowercased)" })
        for start in stride(from: 0, to: lost.count, by: Self.comparedAtOnce) {
            let some = Array(lost[start..<min(start + Self.comparedAtOnce, lost.count)])
            try await pool.write(RestoreReceivers(receivers: some))
        }
    }

    /// Presumes of every receiver of an active message who may have been claimed that Kakao has reached it: PostgreSQL may have lost
    /// commits of a server that has not said what it knows.
    func presumeUnfinished(in transaction: PostgresTransaction) async throws {
        try await transaction.query(RestoreReceivers(receivers: nil))
    }

    func isStored(_ claim: ClaimFile.Claim) async throws -> Bool? {
        try await pool.read(FindClaimedReceiver(claim: claim)).first ?? nil
    }
}

/// Finds out whether a claim of a receiver is stored, or a later one. Returns NULL if the receiver is missing: its user may have been
/// erased.
struct FindClaimedReceiver: PostgresStatement {
    static let sql: SQL = """
        SELECT (SELECT claims >= $3 FROM message_receivers WHERE message_id = $1 AND position = $2)
        """

    let claim: ClaimFile.Claim

    var parameters: [PostgresValue] { [.uuid(claim.owner), .int32(claim.number), .int32(claim.claims)] }
    static func decode(_ row: PostgresRow) throws -> Bool? { try row.decode(Bool?.self) }
}

/// Finds those of the given receivers of whom the database does not know that Kakao has reached them, or may have.
///
/// One whom Kakao has reached is missing even if the database knows that it may have. That proves no loss if the lease of the claim has
/// ended before the result was stored. Whoever was erased with the sender or as a user is not missing.
struct FindLostReceivers: PostgresStatement {
    static let sql: SQL = """
        SELECT given.place,
            NOT COALESCE(
                receiver.may_repeat
                    AND receiver.claims >= given.claims
                    AND (receiver.lease IS NULL OR receiver.claims > given.claims),
                false
            ),
            message.id IS NULL
        FROM unnest($1::uuid[], $2::int[], $3::bool[], $4::int[], $5::bigint[]) WITH ORDINALITY AS given (
            message_id, position, is_sent, claims, sender, place
        )
        LEFT JOIN messages AS message ON message.id = given.message_id
        LEFT JOIN message_receivers AS receiver
            ON receiver.message_id = given.message_id
            AND receiver.position = given.position
        WHERE CASE
                WHEN message.id IS NULL THEN NOT EXISTS (SELECT 1 FROM erased_users WHERE user_id = given.sender)
                ELSE receiver.state IN ('pending', 'waiting', 'sending') AND (given.is_sent OR NOT receiver.may_repeat)
            END
        """

    let receivers: [KnownReceivers.Receiver]

    var parameters: [PostgresValue] {
        RestoreReceivers.columns(receivers) + [
            .int32s(receivers.map(\.claims)), .int64s(receivers.map(\.sender)),
        ]
    }

    /// A receiver that is missing.
    struct Lost: Sendable {
        /// Its index in the list.
        let index: Int
        /// Whether it proves that PostgreSQL has lost commits.
        let isProof: Bool
        let isMessageLost: Bool
    }

    static func decode(_ row: PostgresRow) throws -> Lost {
        let (place, isProof, isMessageLost) = try row.decode(Int64.self, Bool.self, Bool.self)
        return Lost(index: Int(place) - 1, isProof: isProof, isMessageLost: isMessageLost)
    }
}

/// Stores again whom Kakao has reached, or may have reached, where PostgreSQL has lost it; without receivers, presumes of all that may have
/// been claimed that Kakao may have reached them.
///
/// Whoever was reached is `sent`. Whoever may have been is sent again and marked; or is uncertain, if the message is sent at most
/// once.
struct RestoreReceivers: PostgresStatement {
    static let sql: SQL = """
        WITH given AS (
            SELECT message_id, position, bool_or(is_sent) AS is_sent
            FROM unnest($1::uuid[], $2::int[], $3::bool[]) AS given (message_id, position, is_sent)
            GROUP BY message_id, position
            UNION ALL
            SELECT message_id, position, false
            FROM messages
            JOIN message_receivers AS receiver ON receiver.message_id = messages.id
            WHERE $4
                AND messages.state = 'active'
                AND (
                    receiver.state = 'sending'
                    OR receiver.due_at <= now()
                    -- Its uuid may have been found.
                    OR receiver.due_at IS NULL AND COALESCE(messages.send_at, messages.created_at) <= now()
                )
        ),
        found AS (
            SELECT given.message_id, given.position, given.is_sent, message.delivery = 'at_least_once' AS is_repeatable,
                message.state = 'active' AS is_active, receiver.uuid IS NOT NULL OR message.addressing <> 'users' AS is_resolved
            FROM given
            JOIN message_receivers AS receiver USING (message_id, position)
            JOIN messages AS message ON message.id = given.message_id
            WHERE receiver.state IN ('pending', 'waiting', 'sending')
                AND (given.is_sent OR NOT receiver.may_repeat OR receiver.state = 'sending')
            ORDER BY given.message_id, given.position
            FOR UPDATE OF receiver
        )
        UPDATE message_receivers AS receiver
        SET state = CASE
                WHEN found.is_sent THEN 'sent'
                WHEN NOT is_repeatable THEN 'uncertain'
                WHEN is_active THEN 'pending'
                ELSE 'skipped'
            END,
            due_at = CASE WHEN NOT found.is_sent AND is_repeatable AND is_active AND is_resolved THEN now() END,
            finished_at = CASE WHEN found.is_sent OR NOT is_repeatable OR NOT is_active THEN now() END,
            may_repeat = receiver.may_repeat OR NOT found.is_sent AND is_repeatable,
            attempts = GREATEST(receiver.attempts, 1),
            lease = NULL,
            code = NULL,
            reason = CASE WHEN NOT found.is_sent THEN 'server_stopped' END,
            kakao_message = NULL
        FROM found
        -- By key: a row that was changed while this statement waited for its lock has a new place.
        WHERE receiver.message_id = found.message_id
            AND receiver.position = found.position
        """

    /// `nil` for all that may have been claimed.
    let receivers: [KnownReceivers.Receiver]?

    var parameters: [PostgresValue] { Self.columns(receivers ?? []) + [.bool(receivers == nil)] }

    /// The columns of receivers: messages, positions, and whether they are sent.
    fileprivate static func columns(_ receivers: [KnownReceivers.Receiver]) -> [PostgresValue] {
        [
            .uuids(receivers.map(\.messageID)), .int32s(receivers.map(\.position)), .bools(receivers.map(\.isSent)),
        ]
    }
}
