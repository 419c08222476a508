import Endpoints
import FoundationEssentials
import Postgres
import Runtime

extension BatchStore {
    /// The number of batches that are compared by one statement.
    private static let comparedAtOnce = 5000
    private static let maximumRestores = 3
    /// The users of a lost part may be found again in the next one, if the audience has changed: the batches of a part that
    /// follow the last known one are presumed to be sent too.
    private static let presumedBeyond: Int32 = 500

    /// Compares what is known of batches with the database, and stores again what it does not have.
    ///
    /// - Parameter report: Records the number of batches whose result is missing, and the pushes that are.
    func restore(_ known: KnownBatches, _ report: LostCommits.Report) async throws {
        var lost: [(id: UUID, batches: [KnownBatches.Batch])] = []
        var missing = 0
        var gone: [UUID] = []
        for (id, batches) in known.byPush {
            for start in stride(from: 0, to: batches.count, by: Self.comparedAtOnce) {
                let some = Array(batches[start..<min(start + Self.comparedAtOnce, batches.count)])
                let found = try await pool.read(FindLostBatches(pushID: id, batches: some))
                guard !found.isEmpty else { continue }
                missing += found.count(where: \.isProof)
                if found[0].isPushLost, gone.last != id { gone.append(id) }
                lost.append((id, found.map { some[$0.index] }))
            }
        }
        try await report(missing, gone.sorted().map { "push \($0.lowercased)" })
        for (id, batches) in lost {
            var lost = batches
            // Once more if the database has changed meanwhile. What is missing of a push that is lost itself stays missing.
            for _ in 0..<Self.maximumRestores where !lost.isEmpty {
                try await restore(lost, of: id)
                lost = try await pool.read(FindLostBatches(pushID: id, batches: lost)).map { lost[$0.index] }
            }
        }
    }

    /// Stores again that batches of a push were sent, or may have been.
    private func restore(_ batches: [KnownBatches.Batch], of id: UUID) async throws {
        try await pool.withTransaction { transaction in
            try await transaction.query(LockPush(id: id))
            try await transaction.query(AddRowsOfUnclaimedBatches(pushID: id, batches: batches))
            try await transaction.query(AddRowsOfUnsettledBatches(pushID: id, batches: batches))
            try await transaction.query(RestoreBatches(pushID: id, batches: batches))
            try await transaction.query(PresumeBatches(pushID: id, batches: batches, beyond: Self.presumedBeyond))
        }
    }

    /// Presumes of every batch that is still to be sent that it was sent already: a server whose last results are not known may have
    /// done so before PostgreSQL lost commits. Such a batch is sent again and marked, or becomes uncertain.
    func presumeUnfinished(in transaction: PostgresTransaction) async throws {
        for id in try await transaction.query(FindBegunPushes()) {
            try await transaction.query(LockPush(id: id))
            try await transaction.query(AddRowsOfUnclaimedBatches(pushID: id, batches: nil))
            try await transaction.query(RestoreBatches(pushID: id, batches: nil))
            try await transaction.query(PresumeBatches(pushID: id, batches: nil, beyond: 0))
        }
    }
}

/// Finds out whether a claim of a batch is stored, or a later one. Returns NULL for one of a push that retention may have deleted.
struct FindClaimedBatch: PostgresStatement {
    static let sql: SQL = """
        SELECT CASE
                WHEN EXISTS (SELECT 1 FROM push_batches WHERE push_id = $1 AND number = $2 AND claims >= $3)
                    -- Only a first claim shares a row.
                    OR $3 = 1 AND EXISTS (
                        SELECT 1
                        FROM push_claims
                        WHERE push_id = $1
                            AND number <= $2
                            AND number + length(settled) > $2
                    )
                    THEN true
                WHEN EXISTS (SELECT 1 FROM pushes WHERE id = $1 AND removed_at IS NULL) THEN false
                WHEN NOT EXISTS (SELECT 1 FROM pushes WHERE id = $1) AND $4 THEN false
            END
        """

    let claim: ClaimFile.Claim

    var parameters: [PostgresValue] {
        [.uuid(claim.owner), .int32(claim.number), .int32(claim.claims), .bool(claim.isRecent)]
    }

    static func decode(_ row: PostgresRow) throws -> Bool? { try row.decode(Bool?.self) }
}

/// The columns of ``KnownBatches/Batch``: numbers, origins, and whether they are sent.
private func columns(_ batches: [KnownBatches.Batch]?) -> [PostgresValue] {
    [
        .int32s(batches?.map(\.number) ?? []), .int32s(batches?.map(\.origin) ?? []),
        .bools(batches?.map(\.isSent) ?? []),
    ]
}

/// Finds those of the given batches of a push of which the database does not know that they were sent, or may have been.
///
/// A batch that Kakao has accepted is missing even if the database knows that it may have been sent. That proves no loss if its lease has
/// ended before its result was stored.
struct FindLostBatches: PostgresStatement {
    static let sql: SQL = """
        SELECT given.place,
            NOT COALESCE(
                batch.may_repeat AND batch.claims >= given.claims AND (batch.lease IS NULL OR batch.claims > given.claims),
                false
            ),
            push.id IS NULL
        FROM unnest($2::int[], $3::int[], $4::bool[], $6::int[]) WITH ORDINALITY AS given (number, origin, is_sent, claims, place)
        LEFT JOIN LATERAL (
            SELECT state, may_repeat, claims, lease
            FROM push_batches
            WHERE push_id = $1
                AND number = given.number
                AND (
                    origin IS NOT DISTINCT FROM given.origin
                    -- It was split since. Its parts are marked as it was.
                    OR given.origin IS NULL AND origin = number AND may_repeat AND NOT given.is_sent
                )
            LIMIT 1
        ) AS batch ON true
        LEFT JOIN LATERAL (
            SELECT number, settled
            FROM push_claims
            WHERE push_id = $1
                AND number <= given.number
            ORDER BY number DESC
            LIMIT 1
        ) AS claim ON given.origin IS NULL AND given.number < claim.number + length(claim.settled)
        LEFT JOIN pushes AS push ON push.id = $1
        WHERE NOT CASE
                WHEN batch.state IS NOT NULL
                    THEN batch.state = ANY ($5)
                        OR batch.may_repeat AND (NOT given.is_sent OR given.origin IS NOT NULL OR batch.state = 'failed')
                -- Another split, or none: all parts of the rejected batch were marked (``RestoreBatches``).
                WHEN given.origin IS NOT NULL
                    THEN EXISTS (SELECT 1 FROM push_batches WHERE push_id = $1 AND number = given.origin)
                        AND NOT EXISTS (
                            SELECT 1
                            FROM push_batches
                            WHERE push_id = $1
                                AND given.origin IN (number, origin)
                                AND state IN ('waiting', 'sending')
                                AND NOT may_repeat
                        )
                WHEN given.number >= push.next_number THEN given.number < COALESCE(push.presumed_until, 0)
                ELSE given.is_sent AND claim.settled IS NOT NULL AND get_bit(claim.settled, given.number - claim.number) = 1
            END
            -- Retention deletes the batches of a push before the push.
            AND push.removed_at IS NULL
        """

    let pushID: UUID
    let batches: [KnownBatches.Batch]

    var parameters: [PostgresValue] {
        [.uuid(pushID)] + columns(batches) + [
            .texts([BatchState.sent, .uncertain].map(\.rawValue)), .int32s(batches.map(\.claims)),
        ]
    }

    /// A batch that is missing.
    struct Lost: Sendable {
        /// Its index in the list.
        let index: Int
        /// Whether it proves that PostgreSQL has lost commits.
        let isProof: Bool
        let isPushLost: Bool
    }

    static func decode(_ row: PostgresRow) throws -> Lost {
        let (place, isProof, isPushLost) = try row.decode(Int64.self, Bool.self, Bool.self)
        return Lost(index: Int(place) - 1, isProof: isProof, isPushLost: isPushLost)
    }
}

/// Gives each batch that was not claimed a row of its own, in the parts of the given batches up to the last of these; without batches,
/// in all parts.
struct AddRowsOfUnclaimedBatches: PostgresStatement {
    static let sql: SQL = """
        WITH reached AS (
            SELECT part.number, part.claimed, part.batch_users, octet_length(part.ids) / part.id_bytes AS users,
                CASE
                    WHEN $3 THEN part.batches
                    ELSE (
                        SELECT max(COALESCE(origin, given.number)) - part.number + 1
                        FROM unnest($2::int[], $4::int[]) AS given (number, origin)
                        WHERE COALESCE(origin, given.number) BETWEEN part.number AND part.number + part.batches - 1
                    )
                END AS upto
            FROM push_parts AS part
            WHERE part.push_id = $1
                AND part.claimed < part.batches
        ),
        moved AS (
            UPDATE push_parts AS part
            SET claimed = reached.upto
            FROM reached
            WHERE part.push_id = $1
                AND part.number = reached.number
                AND part.claimed < reached.upto
            RETURNING reached.*
        )
        INSERT INTO push_batches (push_id, number, users, state)
        SELECT $1, number + place, LEAST(batch_users, users - place * batch_users), 'waiting'
        FROM moved
        CROSS JOIN generate_series(claimed, upto - 1) AS place
        """

    let pushID: UUID
    /// `nil` for all.
    let batches: [KnownBatches.Batch]?

    var parameters: [PostgresValue] {
        let columns = columns(batches)
        return [.uuid(pushID), columns[0], .bool(batches == nil), columns[1]]
    }
}

/// Gives each of the given batches that was claimed, and whose result is not stored, a row of its own.
struct AddRowsOfUnsettledBatches: PostgresStatement {
    static let sql: SQL = """
        WITH claim AS MATERIALIZED (
            SELECT number, batch_users, users, settled
            FROM push_claims
            WHERE push_id = $1
                AND lease IS NOT NULL
            ORDER BY number
            FOR UPDATE
        ),
        own AS MATERIALIZED (
            SELECT claim.number, batch_users, users, place
            FROM claim
            CROSS JOIN generate_series(0, length(settled) - 1) AS place
            WHERE get_bit(settled, place) = 0
                AND claim.number + place = ANY ($2)
        ),
        settled AS (
            UPDATE push_claims
            SET settled = joined.settled,
                lease = CASE WHEN bit_count(joined.settled) < length(joined.settled) THEN lease END
            FROM (
                SELECT number,
                    (
                        SELECT string_agg(
                            CASE
                                WHEN get_bit(claim.settled, place) = 1 OR claim.number + place = ANY ($2) THEN '1'
                                ELSE '0'
                            END,
                            '' ORDER BY place
                        )
                        FROM generate_series(0, length(claim.settled) - 1) AS place
                    )::bit varying AS settled
                FROM claim
                WHERE number IN (SELECT number FROM own)
            ) AS joined
            WHERE push_claims.push_id = $1
                AND push_claims.number = joined.number
        )
        INSERT INTO push_batches (push_id, number, users, state, attempts, claims)
        SELECT $1, number + place, LEAST(batch_users, users - place * batch_users), 'waiting', 1, 1
        FROM own
        """

    let pushID: UUID
    let batches: [KnownBatches.Batch]

    var parameters: [PostgresValue] { [.uuid(pushID), columns(batches.filter { $0.origin == nil })[0]] }
}

/// Stores again what is known of batches with rows of their own; without batches, presumes of all open batches that they were sent.
///
/// A whole batch that Kakao has accepted is sent. Any other is sent again and marked, because its users may be reached twice; or it is
/// uncertain, if its push is sent at most once. Of a part of a rejected batch, all parts of that batch are.
struct RestoreBatches: PostgresStatement {
    /// What such a batch shows in place of Kakao's error text.
    static let lostRecord: SQL = "PostgreSQL lost the record of this batch."

    static let sql: SQL = """
        WITH given AS (
            SELECT *
            FROM unnest($2::int[], $3::int[], $4::bool[]) AS given (number, origin, is_sent)
        ),
        push AS MATERIALIZED (
            SELECT delivery
            FROM pushes
            WHERE id = $1
        ),
        found AS (
            SELECT number, (SELECT bool_or(is_sent) FROM given WHERE number = batch.number AND origin IS NULL) AS is_sent
            FROM push_batches AS batch
            WHERE push_id = $1
                AND state = ANY ($6)
                AND (
                    $5
                    OR origin IS NULL AND number IN (SELECT number FROM given WHERE origin IS NULL)
                    OR number IN (SELECT origin FROM given)
                    OR origin IN (SELECT origin FROM given)
                )
            FOR UPDATE
        ),
        restored AS (
            UPDATE push_batches AS batch
            SET state = CASE
                    WHEN found.is_sent AND batch.origin IS NULL THEN 'sent'
                    WHEN push.delivery = 'at_most_once' THEN 'uncertain'
                    ELSE 'waiting'
                END,
                finished_at = CASE
                    WHEN found.is_sent AND batch.origin IS NULL OR push.delivery = 'at_most_once' THEN now()
                END,
                may_repeat = batch.may_repeat
                    OR push.delivery = 'at_least_once' AND NOT (COALESCE(found.is_sent, false) AND batch.origin IS NULL),
                attempts = GREATEST(batch.attempts, 1),
                next_attempt_at = now(),
                lease = NULL,
                kakao_status = CASE WHEN found.is_sent AND batch.origin IS NULL THEN 200 END,
                kakao_code = NULL,
                kakao_message = '\(lostRecord)'
            FROM found
            CROSS JOIN push
            -- By key: a row that was changed while this statement waited for its lock has a new place.
            WHERE batch.push_id = $1
                AND batch.number = found.number
            RETURNING batch.state, batch.users, batch.may_repeat
        )
        INSERT INTO push_counts AS counts (push_id, slot, state, users, batches, may_repeat)
        SELECT $1, -2, state, sum(users), count(*), COALESCE(sum(users) FILTER (WHERE may_repeat), 0)
        FROM restored
        WHERE state <> 'waiting'
        GROUP BY state
        ORDER BY state
        ON CONFLICT (push_id, slot, state) DO UPDATE
        SET users = counts.users + excluded.users,
            batches = counts.batches + excluded.batches,
            may_repeat = counts.may_repeat + excluded.may_repeat
        """

    let pushID: UUID
    /// `nil` for all.
    let batches: [KnownBatches.Batch]?

    var parameters: [PostgresValue] {
        [.uuid(pushID)] + columns(batches) + [
            .bool(batches == nil), .texts([BatchState.waiting, .sending].map(\.rawValue)),
        ]
    }
}

/// Records that batches were sent which the push does not have, because PostgreSQL has lost their part: ``StorePushPart`` presumes of the
/// batches that take their numbers that they were sent. Without batches, of all that are still to be prepared.
struct PresumeBatches: PostgresStatement {
    static let sql: SQL = """
        UPDATE pushes
        SET presumed_until = GREATEST(presumed_until, lost.until)
        FROM (
            SELECT CASE WHEN $3 THEN 2147483647 ELSE max(given.number) + 1 + $4 END AS until
            FROM pushes
            LEFT JOIN unnest($2::int[]) AS given (number) ON given.number >= next_number
            WHERE id = $1
        ) AS lost
        WHERE id = $1
            AND prepared_at IS NULL
            AND lost.until IS NOT NULL
        """

    let pushID: UUID
    /// `nil` for all.
    let batches: [KnownBatches.Batch]?
    /// The number of further batches.
    let beyond: Int32

    var parameters: [PostgresValue] {
        [.uuid(pushID), columns(batches)[0], .bool(batches == nil), .int32(beyond)]
    }
}

/// Finds the pushes that have not ended and may have begun: PostgreSQL may have lost their beginning, or their approval.
struct FindBegunPushes: PostgresStatement {
    static let sql: SQL = """
        SELECT id
        FROM pushes
        WHERE finished_at IS NULL
            AND (started_at IS NOT NULL OR send_at IS NULL OR send_at <= now())
        ORDER BY id
        """

    static func decode(_ row: PostgresRow) throws -> UUID { try row.decode(UUID.self) }
}
