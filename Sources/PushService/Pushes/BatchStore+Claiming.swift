internal import FoundationEssentials
internal import Postgres

// Which batches a server sends next.
extension BatchStore {
    /// The probe of `push` while it can still tell something: until somebody has been sent the message, or all that came of the refused
    /// batch has ended, in whatever way.
    static let probeInForce = """
        CASE
            WHEN push.probe IS NOT NULL
                AND NOT EXISTS (SELECT 1 FROM push_counts WHERE push_id = push.id AND state = 'sent')
                AND EXISTS (
                    SELECT 1
                    FROM push_batches
                    WHERE push_id = push.id
                        AND origin = push.probe
                        AND state IN ('waiting', 'sending')
                )
            THEN push.probe
        END
        """

    /// Begins the server's lease anew if there are batches to hold under it: an empty claim writes nothing.
    private static func renewal(of lease: String, seconds: String, ifAny batches: String) -> String {
        """
        INSERT INTO push_leases (id, ends_at)
        SELECT \(lease), now() + make_interval(secs => \(seconds))
        WHERE EXISTS (SELECT 1 FROM \(batches))
        ON CONFLICT (id) DO UPDATE
        SET ends_at = excluded.ends_at
        """
    }

    /// How many batches of a push are wanted.
    struct Share: Sendable {
        let pushID: UUID
        let batches: Int
    }

    /// Claims batches that are due, the longest waiting first, under a lease that this renews.
    ///
    /// The rows are locked, so that they stay where they are until they are changed: by their place, which is found at once whatever the
    /// planner believes about the table.
    ///
    /// While a push is under probe (``split(_:_:)``), only what came of the refused batch is claimed.
    func claim(_ shares: [Share], lease: UUID) async throws -> [BatchClaim] {
        let rows = try await pool.write(
            """
            WITH share AS MATERIALIZED (
                SELECT push.id AS push_id, given.batches, \(Self.probeInForce) AS probe
                FROM unnest($1::uuid[], $2::int[]) AS given (push_id, batches)
                JOIN pushes AS push ON push.id = given.push_id
                WHERE push.state IN ('preparing', 'sending')
                    AND (push.expires_at IS NULL OR push.expires_at > now())
            ),
            due AS (
                SELECT batch.place
                FROM share
                CROSS JOIN LATERAL (
                    SELECT ctid AS place
                    FROM push_batches
                    WHERE push_id = share.push_id
                        AND state = 'waiting'
                        AND next_attempt_at <= now()
                        AND share.probe IS NULL
                    ORDER BY next_attempt_at, number
                    LIMIT share.batches
                    FOR UPDATE SKIP LOCKED
                ) AS batch
            ),
            probing AS (
                SELECT batch.place
                FROM share
                CROSS JOIN LATERAL (
                    SELECT ctid AS place
                    FROM push_batches
                    WHERE push_id = share.push_id
                        AND origin = share.probe
                        AND state = 'waiting'
                        AND next_attempt_at <= now()
                    ORDER BY number
                    LIMIT share.batches
                    FOR UPDATE SKIP LOCKED
                ) AS batch
                WHERE share.probe IS NOT NULL
            ),
            chosen AS (
                SELECT place
                FROM due
                UNION ALL
                SELECT place
                FROM probing
            ),
            lease AS (
                \(Self.renewal(of: "$3", seconds: "$4", ifAny: "chosen"))
            )
            UPDATE push_batches AS batch
            SET state = 'sending',
                attempts = batch.attempts + 1,
                lease = $3
            WHERE batch.ctid = ANY (ARRAY(SELECT place FROM chosen))
            RETURNING batch.push_id, batch.number, batch.user_ids, batch.attempts, batch.origin
            """,
            [
                .uuids(shares.map(\.pushID)), .int32s(shares.map { Int32(clamping: $0.batches) }), .uuid(lease),
                .float64(Self.leaseSeconds),
            ]
        )
        return try rows.map { try Self.claim($0, lease) }
    }

    /// Claims batches of a push that is sent to so many users a second, by all servers together; at most as many as that allows now.
    func claimSlowly(_ id: UUID, batches: Int, lease: UUID) async throws -> [BatchClaim] {
        let rows = try await pool.write(
            """
            WITH push AS MATERIALIZED (
                SELECT id, \(Self.probeInForce) AS probe, batch_users,
                    LEAST(
                        GREATEST(users_per_second / 10.0, batch_users),
                        rate_users + users_per_second * EXTRACT(epoch FROM clock_timestamp() - rate_at)
                    ) AS allowed
                FROM pushes AS push
                WHERE id = $1
                    AND state IN ('preparing', 'sending')
                    AND (expires_at IS NULL OR expires_at > now())
                FOR UPDATE SKIP LOCKED
            ),
            due AS (
                SELECT batch.place
                FROM push
                CROSS JOIN LATERAL (
                    SELECT ctid AS place
                    FROM push_batches
                    WHERE push_id = push.id
                        AND state = 'waiting'
                        AND next_attempt_at <= now()
                        AND (push.probe IS NULL OR origin = push.probe)
                    ORDER BY next_attempt_at, number
                    LIMIT LEAST($4, floor(push.allowed / push.batch_users)::int)
                    FOR UPDATE SKIP LOCKED
                ) AS batch
            ),
            claimed AS (
                UPDATE push_batches AS batch
                SET state = 'sending',
                    attempts = batch.attempts + 1,
                    lease = $2
                WHERE batch.ctid = ANY (ARRAY(SELECT place FROM due))
                RETURNING batch.push_id, batch.number, batch.user_ids, batch.attempts, batch.origin, batch.users
            ),
            lease AS (
                \(Self.renewal(of: "$2", seconds: "$3", ifAny: "claimed"))
            ),
            spent AS (
                UPDATE pushes
                SET rate_users = push.allowed - (SELECT COALESCE(sum(users), 0) FROM claimed),
                    rate_at = clock_timestamp()
                FROM push
                WHERE pushes.id = push.id
                    AND EXISTS (SELECT 1 FROM claimed)
            )
            SELECT push_id, number, user_ids, attempts, origin
            FROM claimed
            """,
            [.uuid(id), .uuid(lease), .float64(Self.leaseSeconds), .int32(Int32(clamping: batches))]
        )
        return try rows.map { try Self.claim($0, lease) }
    }

    private static func claim(_ row: PostgresRow, _ lease: UUID) throws -> BatchClaim {
        let (pushID, number, userIDs, attempts, origin) = try row.decode(
            UUID.self,
            Int32.self,
            [Int64].self,
            Int32.self,
            Int32?.self
        )
        return BatchClaim(
            pushID: pushID,
            number: number,
            userIDs: userIDs,
            attempts: Int(attempts),
            origin: origin,
            lease: lease
        )
    }
}
