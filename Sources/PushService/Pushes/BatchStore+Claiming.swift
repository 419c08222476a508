internal import FoundationEssentials
internal import Postgres

// Which batches a server sends next.
extension BatchStore {
    /// The number of users of `push` whose batches were sent.
    static let usersSent =
        "(SELECT COALESCE(sum(users), 0) FROM push_counts WHERE push_id = push.id AND state = 'sent')"

    /// The probe of `push` while its outcome is open: until Kakao has accepted the message for another user, or every part of the rejected
    /// batch has ended, in whatever way.
    static let openProbe = """
        CASE
            WHEN push.probe IS NOT NULL
                AND \(usersSent) <= push.probe_sent
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

    /// The server's lease, if its row exists and has not ended. Locked, so that a server that takes it over waits for this claim and then
    /// finds its batches.
    private static func validLease(_ lease: String) -> String {
        """
        SELECT id
        FROM push_leases
        WHERE id = \(lease)
            AND ends_at > now()
        FOR KEY SHARE
        """
    }

    /// The first part of a push of which there are batches to claim, locked, and how many. What another server claims of at this moment is
    /// passed over.
    private static func nextPart(of push: String) -> String {
        """
        SELECT number, batches - claimed AS unclaimed
        FROM push_parts
        WHERE push_id = \(push)
            AND claimed < batches
        ORDER BY number
        LIMIT 1
        FOR UPDATE SKIP LOCKED
        """
    }

    /// Batches that share a row of `push_claims`, at most: few rows, each of them short.
    static let sharing: Int32 = 100

    /// Claims the batches at the places of `batches`, and as many of each part as `parts` says, which share rows from now on. `claimed` has
    /// a row for each of the former, and one for those of each part.
    ///
    /// A part is found by its key, and not by its place: another server may have claimed of it since this statement began.
    private static func claims(of batches: String, and parts: String, lease: String) -> String {
        """
        again AS (
            UPDATE push_batches AS batch
            SET state = 'sending',
                attempts = batch.attempts + 1,
                claims = batch.claims + 1,
                lease = \(lease)
            WHERE batch.ctid = ANY (ARRAY(SELECT place FROM \(batches)))
            RETURNING batch.push_id, batch.number, COALESCE(batch.user_ids, push_part_users(batch.push_id, batch.number)) AS user_ids,
                batch.attempts, batch.claims, batch.origin, batch.users
        ),
        first AS (
            UPDATE push_parts AS part
            SET claimed = part.claimed + claim.batches
            FROM \(parts) AS claim
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
                LEAST(\(sharing) * batch_users, octet_length(user_ids) / id_bytes - start * batch_users), \(lease),
                repeat('0', LEAST(\(sharing), batches - start))::bit varying
            FROM first
            CROSS JOIN generate_series(0, batches - 1, \(sharing)) AS start
        ),
        claimed AS (
            SELECT push_id, number, user_ids, attempts, claims, origin, NULL::bytea AS part_users, NULL::int AS id_bytes, NULL::int AS batch_users,
                users
            FROM again
            UNION ALL
            SELECT push_id, number, NULL, 1, 1, NULL, user_ids, id_bytes, batch_users, octet_length(user_ids) / id_bytes
            FROM first
        )
        """
    }

    /// How many batches of a push are wanted.
    struct Share: Sendable {
        let pushID: UUID
        let batches: Int
    }

    struct Claimed: Sendable {
        /// Whether the lease was valid: nothing is claimed otherwise.
        private(set) var isLeaseValid = false
        private(set) var batches: [BatchClaim] = []
        /// Pushes of which there may be more at once: a claim does not go beyond the end of a part.
        private(set) var cutShort: Set<UUID> = []
    }

    /// Claims batches that are due, the longest waiting first, under a valid lease.
    ///
    /// The rows are locked, so that they stay where they are until they are changed: by their place, which is found at once whatever the
    /// planner believes about the table.
    ///
    /// While a push is under probe (``split(_:_:)``), only what came of the refused batch is claimed.
    ///
    /// - Returns: Also more than was asked for: as many that were tried before, and as many that were not.
    func claim(_ shares: [Share], lease: UUID) async throws -> Claimed {
        let rows = try await pool.write(
            """
            WITH lease AS MATERIALIZED (
                \(Self.validLease("$3"))
            ),
            share AS MATERIALIZED (
                SELECT push.id AS push_id, given.batches, \(Self.openProbe) AS probe
                FROM lease
                CROSS JOIN unnest($1::uuid[], $2::int[]) AS given (push_id, batches)
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
            part AS (
                SELECT share.push_id, part.number, LEAST(share.batches, part.unclaimed) AS batches
                FROM share
                CROSS JOIN LATERAL (
                    \(Self.nextPart(of: "share.push_id"))
                ) AS part
                WHERE share.probe IS NULL
            ),
            \(Self.claims(of: "chosen", and: "part", lease: "$3"))
            SELECT push_id, number, user_ids, attempts, claims, origin, part_users, id_bytes, batch_users
            FROM lease
            LEFT JOIN claimed ON true
            """,
            [.uuids(shares.map(\.pushID)), .int32s(shares.map { Int32(clamping: $0.batches) }), .uuid(lease)]
        )
        return try Claimed(rows, lease: lease)
    }

    /// Claims batches of a push that is sent to so many users a second, by all servers together; at most as many as that allows now.
    func claimSlowly(_ id: UUID, batches: Int, lease: UUID) async throws -> Claimed {
        let rows = try await pool.write(
            """
            WITH lease AS MATERIALIZED (
                \(Self.validLease("$2"))
            ),
            push AS MATERIALIZED (
                SELECT id, \(Self.openProbe) AS probe, batch_users,
                    -- One batch when the clock was set back: the next claim counts from the new time.
                    CASE
                        WHEN rate_at > clock_timestamp() THEN batch_users
                        ELSE LEAST(
                            GREATEST(users_per_second / 10.0, batch_users),
                            rate_users + users_per_second * EXTRACT(epoch FROM clock_timestamp() - rate_at)
                        )
                    END AS allowed
                FROM pushes AS push
                WHERE id = $1
                    AND EXISTS (SELECT 1 FROM lease)
                    AND state IN ('preparing', 'sending')
                    AND (expires_at IS NULL OR expires_at > now())
                FOR UPDATE SKIP LOCKED
            ),
            room AS (
                SELECT LEAST($3, GREATEST(0, floor(allowed / batch_users)::int)) AS batches
                FROM push
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
                    LIMIT (SELECT batches FROM room)
                    FOR UPDATE SKIP LOCKED
                ) AS batch
            ),
            part AS (
                SELECT push.id AS push_id, part.number, LEAST(room.batches - due.batches, part.unclaimed) AS batches
                FROM push
                CROSS JOIN room
                CROSS JOIN (SELECT count(*)::int AS batches FROM due) AS due
                CROSS JOIN LATERAL (
                    \(Self.nextPart(of: "push.id"))
                ) AS part
                WHERE push.probe IS NULL
                    AND due.batches < room.batches
            ),
            \(Self.claims(of: "due", and: "part", lease: "$2")),
            spent AS (
                UPDATE pushes
                SET rate_users = push.allowed - (SELECT COALESCE(sum(users), 0) FROM claimed),
                    rate_at = clock_timestamp()
                FROM push
                WHERE pushes.id = push.id
                    AND EXISTS (SELECT 1 FROM claimed)
            )
            SELECT push_id, number, user_ids, attempts, claims, origin, part_users, id_bytes, batch_users
            FROM lease
            LEFT JOIN claimed ON true
            """,
            [.uuid(id), .uuid(lease), .int32(Int32(clamping: batches))]
        )
        return try Claimed(rows, lease: lease)
    }
}

extension BatchStore.Claimed {
    fileprivate init(_ rows: PostgresRows, lease: UUID) throws {
        // One row of nothing but NULL if there was nothing to claim.
        isLeaseValid = !rows.isEmpty
        for row in rows {
            let (pushID, number, userIDs, attempts, claims, origin, partUsers, idBytes, batchUsers) = try row.decode(
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
                let first = number - Int32(place) % BatchStore.sharing
                let shared = first..<min(first + BatchStore.sharing, numbers.upperBound)
                add(number, users.ids(size * place..<size * (place + 1)), shared: shared)
            }
        }
    }
}
