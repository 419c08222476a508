import FoundationEssentials
import Postgres
import Runtime

extension BatchStore {
    /// The number of batches to claim of a push.
    struct Share: Sendable {
        let pushID: UUID
        let batches: Int
    }

    /// Claims batches that are due under a valid lease, those that have waited longest first.
    ///
    /// - Returns: Up to twice as many batches as wanted: as many that were tried before, and as many that were not. For
    ///   a push with a rate limit, at most as many as wanted, and as many as the rate allows for all servers together.
    func claim(_ shares: [Share], lease: UUID) async throws -> ClaimedBatches {
        let claim = ClaimBatches(shares: shares, lease: lease, hours: settings.hours)
        return ClaimedBatches(try await pool.write(claim), lease: lease)
    }
}

/// Claims waiting batches of pushes that are being sent.
///
/// The rows are locked, so that they stay in their places (`ctid`) until they are updated by place, whatever plan
/// PostgreSQL chooses. The lease is locked too: a server that reclaims its batches waits for this claim and then finds
/// them; so does an operator who stops the sender (`SenderControl`). While a push is under probe (``SplitBatch``), only
/// parts of the rejected batch are claimed. Batches that were not tried before come from one part of a push. The part is
/// found by its key and not by its place, since another server may have claimed batches of it since this statement began.
/// Up to 100 of these batches share a row of `push_claims`, so that rows are few and short.
struct ClaimBatches: PostgresStatement {
    /// The maximum number of batches that share a row of `push_claims`.
    static let sharing: Int32 = 100

    static let sql: SQL = """
        WITH lease AS MATERIALIZED (\(SQL.lockedLease("$3"))),
        -- Waits for a stop that is being committed. A lease is valid, and claims nothing, while the sender is stopped, or until all
        -- servers know what a new run of PostgreSQL has lost.
        running AS MATERIALIZED (
            SELECT 1
            FROM sender
            WHERE stopped_at IS NULL
                AND commits_are_checked('pushes')
            FOR SHARE
        ),
        -- The number of users of each rate-limited push that may be sent to now. One server claims of such a push at a time.
        rated AS MATERIALIZED (
            SELECT id, batch_users, clock_timestamp() AS counted_at,
                -- One batch if the clock was set back: the next claim counts from the new time.
                CASE
                    WHEN rate_at > clock_timestamp() THEN batch_users
                    ELSE LEAST(
                        GREATEST(users_per_second / 10.0, batch_users),
                        rate_users + users_per_second * EXTRACT(epoch FROM clock_timestamp() - rate_at)
                    )
                END AS allowed
            FROM pushes
            WHERE id = ANY ($1)
                AND users_per_second IS NOT NULL
                AND state IN ('preparing', 'sending')
                AND EXISTS (SELECT 1 FROM lease)
                AND EXISTS (SELECT 1 FROM running)
            FOR UPDATE SKIP LOCKED
        ),
        share AS MATERIALIZED (
            SELECT push.id AS push_id, push.users_per_second IS NOT NULL AS is_rated,
                CASE
                    WHEN push.users_per_second IS NULL THEN given.batches
                    ELSE LEAST(given.batches, GREATEST(0, floor(rated.allowed / rated.batch_users)::int))
                END AS batches,
                CASE
                    WHEN push.probe IS NOT NULL THEN push_open_probe(push.id, push.probe, push.probe_sent)
                END AS probe
            FROM lease
            CROSS JOIN running
            CROSS JOIN unnest($1::uuid[], $2::int[]) AS given (push_id, batches)
            JOIN pushes AS push ON push.id = given.push_id
            LEFT JOIN rated ON rated.id = push.id
            WHERE push.state IN ('preparing', 'sending')
                -- Nothing is sent before it is known that the push does not have more users than are allowed.
                AND (push.allowed_users IS NULL OR push.prepared_at IS NOT NULL)
                AND (push.expires_at IS NULL OR push.expires_at > now())
                AND \(AdvertisingHours.admit("push", hours: "$5"))
                AND (push.users_per_second IS NULL OR rated.id IS NOT NULL)
        ),
        due AS (
            SELECT share.push_id, batch.place
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
        part AS (
            SELECT share.push_id, part.number, LEAST(wanted.batches, part.unclaimed) AS batches
            FROM share
            CROSS JOIN LATERAL (
                SELECT CASE
                        WHEN share.is_rated
                            THEN share.batches - (SELECT count(*)::int FROM due WHERE due.push_id = share.push_id)
                        ELSE share.batches
                    END AS batches
            ) AS wanted
            CROSS JOIN LATERAL (
                SELECT number, batches - claimed AS unclaimed
                FROM push_parts
                WHERE push_id = share.push_id
                    AND claimed < batches
                ORDER BY number
                LIMIT 1
                FOR UPDATE SKIP LOCKED
            ) AS part
            WHERE share.probe IS NULL
                AND wanted.batches > 0
        ),
        again AS (
            UPDATE push_batches AS batch
            SET state = 'sending',
                attempts = batch.attempts + 1,
                claims = batch.claims + 1,
                lease = $3
            WHERE batch.ctid = ANY (ARRAY(SELECT place FROM chosen))
            RETURNING batch.push_id, batch.number, COALESCE(batch.user_ids, push_part_users(batch.push_id, batch.number)) AS user_ids,
                batch.attempts, batch.claims, batch.origin, batch.users
        ),
        first AS (
            UPDATE push_parts AS part
            SET claimed = part.claimed + claim.batches
            FROM part AS claim
            WHERE part.push_id = claim.push_id
                AND part.number = claim.number
            RETURNING part.push_id, part.number + part.claimed - claim.batches AS number, claim.batches, part.batch_users,
                part.id_bytes,
                substring(
                    part.ids
                    FROM part.id_bytes * part.batch_users * (part.claimed - claim.batches) + 1
                    FOR part.id_bytes * part.batch_users * claim.batches
                ) AS user_ids
        ),
        sharing AS (
            INSERT INTO push_claims (push_id, number, batch_users, users, lease, settled)
            SELECT push_id, number + start, batch_users,
                LEAST($4 * batch_users, octet_length(user_ids) / id_bytes - start * batch_users), $3,
                repeat('0', LEAST($4, batches - start))::bit varying
            FROM first
            CROSS JOIN generate_series(0, batches - 1, $4::int) AS start
        ),
        spent AS (
            UPDATE pushes
            SET rate_users = rated.allowed - claim.users,
                rate_at = rated.counted_at
            FROM rated
            JOIN (
                SELECT push_id, sum(users) AS users
                FROM (
                    SELECT push_id, users
                    FROM again
                    UNION ALL
                    SELECT push_id, octet_length(user_ids) / id_bytes
                    FROM first
                ) AS claimed
                GROUP BY push_id
            ) AS claim ON claim.push_id = rated.id
            WHERE pushes.id = rated.id
        )
        SELECT push_id, number, user_ids, attempts, claims, origin, part_users, id_bytes, batch_users
        FROM lease
        LEFT JOIN (
            SELECT push_id, number, user_ids, attempts, claims, origin, NULL::bytea AS part_users, NULL::int AS id_bytes,
                NULL::int AS batch_users
            FROM again
            UNION ALL
            SELECT push_id, number, NULL, 1, 1, NULL, user_ids, id_bytes, batch_users
            FROM first
        ) AS claimed ON true
        """

    let shares: [BatchStore.Share]
    let lease: UUID
    /// The hours for advertising: ``AdvertisingHours/parameter(in:)``.
    let hours: PostgresValue

    var parameters: [PostgresValue] {
        [
            .uuids(shares.map(\.pushID)), .int32s(shares.map { Int32(clamping: $0.batches) }), .uuid(lease),
            .int32(Self.sharing), hours,
        ]
    }

    /// Decodes a batch that was tried before, or the batches of a part. All columns are NULL if there was nothing to
    /// claim.
    static func decode(
        _ row: PostgresRow
    ) throws -> (UUID?, Int32?, [Int64]?, Int32?, Int32?, Int32?, [UInt8]?, Int32?, Int32?) {
        try row.decode(
            UUID?.self,
            Int32?.self,
            [Int64]?.self,
            Int32?.self,
            Int32?.self,
            Int32?.self,
            [UInt8]?.self,
            Int32?.self,
            Int32?.self
        )
    }
}

/// The batches of one claim.
struct ClaimedBatches: Sendable {
    /// Whether the lease was valid. Nothing is claimed under an invalid one.
    let isLeaseValid: Bool
    private(set) var batches: [BatchClaim] = []
    /// The pushes that may have more batches, because a claim ends with a part.
    private(set) var cutShort: Set<UUID> = []

    init(_ batches: [BatchClaim]) {
        isLeaseValid = true
        self.batches = batches
    }

    fileprivate init(_ rows: [ClaimBatches.Row], lease: UUID) {
        isLeaseValid = !rows.isEmpty
        for (pushID, number, userIDs, attempts, claims, origin, partUsers, idBytes, batchUsers) in rows {
            guard let pushID, let number, let attempts, let claims else { continue }
            func add(_ number: Int32, _ userIDs: [Int64], shared: Range<Int32>?) {
                batches.append(
                    BatchClaim(
                        pushID: pushID,
                        number: number,
                        userIDs: userIDs,
                        attempts: Int(attempts),
                        claims: claims,
                        origin: origin,
                        lease: lease,
                        shared: shared
                    )
                )
            }
            if let userIDs { add(number, userIDs, shared: nil) }
            guard let partUsers, let idBytes, let batchUsers else { continue }
            cutShort.insert(pushID)
            let users = UserIDBytes(bytes: partUsers, width: Int(idBytes))
            let size = Int(batchUsers)
            let numbers = number..<number + Int32((users.count + size - 1) / size)
            for (place, number) in numbers.enumerated() {
                let first = number - Int32(place) % ClaimBatches.sharing
                let shared = first..<min(first + ClaimBatches.sharing, numbers.upperBound)
                add(number, users.ids(size * place..<size * (place + 1)), shared: shared)
            }
        }
    }
}
