internal import FoundationEssentials
internal import KakaoAPI
internal import Postgres

/// The batches in PostgreSQL, as the sender works on them.
///
/// Each change of a batch is guarded by its state and by the lease it was claimed under: a server that was taken for dead can no
/// longer change anything.
final class BatchStore: Sendable {
    let pool: PostgresPool
    /// How long a lease lasts unless it is renewed.
    private let leaseSeconds: Double
    /// Servers that count for one push do so in rows of their own, mostly: nobody waits for another's commit.
    let slot = Int32.random(in: 0..<64)
    let results: StatementCoalescer<BatchResult, Void>
    let settlements: StatementCoalescer<Settlement, Void>

    init(pool: PostgresPool, intervals: SenderIntervals = SenderIntervals()) {
        self.pool = pool
        leaseSeconds = intervals.lease.inSeconds
        results = StatementCoalescer(
            pool: pool,
            statement: Self.finishStatement,
            parameters: { [slot] in Self.finishParameters($0, slot: slot) },
            decode: { _, count in [Void](repeating: (), count: count) }
        )
        settlements = StatementCoalescer(
            pool: pool,
            statement: Self.settleStatement,
            parameters: { [slot] in Self.settleParameters($0, slot: slot) },
            decode: { _, count in [Void](repeating: (), count: count) }
        )
    }

    // MARK: Pushes

    /// What the sender has to know of a push to send its batches.
    struct Active: Sendable {
        let id: UUID
        let name: String?
        let message: PushMessage
        let bypass: Bool
        let delivery: Delivery
        let usersPerSecond: Int32?
    }

    /// The pushes that are being sent.
    struct ActivePushes: Sendable {
        /// All of them, with the time until each expires by the database's clock; `nil` if it does not expire.
        var timeLeft: [UUID: Duration?] = [:]
        /// Those that were not known.
        var new: [Active] = []
        /// Those of which more batches are being prepared.
        var unprepared: Set<UUID> = []
        /// The time until the next scheduled push, if that is soon.
        var nextStart: Duration?
    }

    /// Reads the pushes that have batches to be sent, now or later, the oldest first.
    ///
    /// - Parameter known: The pushes whose messages need not be read again.
    func active(besides known: [UUID]) async throws -> ActivePushes {
        let rows = try await pool.read(
            """
            SELECT id, NOT id = ANY ($1), CASE WHEN NOT id = ANY ($1) THEN message ELSE '' END, message_version, bypass,
                name, delivery, users_per_second, EXTRACT(epoch FROM expires_at - now())::float8,
                prepared_at IS NOT NULL AND retry_position IS NULL,
                CASE WHEN state = 'scheduled' THEN EXTRACT(epoch FROM send_at - now())::float8 END
            FROM pushes
            WHERE \(Self.isUnfinished)
            ORDER BY id
            LIMIT 5000
            """,
            [.uuids(known)]
        )
        var active = ActivePushes()
        for row in rows {
            let (
                id, isNew, message, version, bypass, name, delivery, usersPerSecond, expiresIn, isPrepared, startsIn
            ) = try row.decode(
                UUID.self,
                Bool.self,
                String.self,
                String.self,
                Bool.self,
                String?.self,
                String.self,
                Int32?.self,
                Double?.self,
                Bool.self,
                Double?.self
            )
            if let startsIn, startsIn > 0 {
                active.nextStart = min(active.nextStart ?? .seconds(10), .seconds(startsIn))
                continue
            }
            active.timeLeft[id] = .some(expiresIn.map { .seconds($0) })
            if !isPrepared { active.unprepared.insert(id) }
            guard isNew else { continue }
            active.new.append(
                Active(
                    id: id,
                    name: name,
                    message: PushMessage(text: message, version: PushVersion(rawValue: version) ?? .v1),
                    bypass: bypass,
                    delivery: Delivery(rawValue: delivery) ?? .atLeastOnce,
                    usersPerSecond: usersPerSecond
                )
            )
        }
        return active
    }

    /// Whether a push of `pushes` is being sent, or will be within seconds.
    private static let isUnfinished = """
        state IN ('scheduled', 'preparing', 'sending')
            AND (state <> 'scheduled' OR send_at <= now() + interval '10 s')
        """

    /// Ends those pushes of which nothing is left to be sent. Returns which.
    ///
    /// By what was counted, and so after the results are committed: of two servers that finish the last two batches, the later sees
    /// both. A push that changes while this statement waits for its row is left alone, since what was counted may have changed with it.
    func endFinished(_ ids: [UUID]) async throws -> [UUID] {
        let rows = try await pool.write(
            """
            UPDATE pushes AS push
            SET state = 'done',
                finished_at = now()
            WHERE push.id = ANY ($1)
                AND push.state = 'sending'
                AND push.retry_position IS NULL
                AND push.xmin = (SELECT seen.xmin FROM pushes AS seen WHERE seen.id = push.id)
                AND push.users - push.users_skipped
                    = (SELECT COALESCE(sum(users), 0) FROM push_counts WHERE push_id = push.id)
            RETURNING push.id
            """,
            [.uuids(ids)]
        )
        return try rows.map { try $0.decode(UUID.self) }
    }

    /// Ends a push whose time is over.
    func expire(_ id: UUID) async throws {
        _ = try await pool.write(
            """
            UPDATE pushes
            SET state = 'expired',
                finished_at = now()
            WHERE id = $1
                AND state IN ('preparing', 'sending')
                AND expires_at <= now()
            """,
            [.uuid(id)]
        )
    }

    /// Halts a push until an operator resumes it, because of what Kakao answered for the batch of `claim`. Returns whether it was being sent.
    ///
    /// Has no effect once the batch's result is stored, so that it can be repeated after a lost response.
    func halt(_ claim: BatchClaim, reason: String) async throws -> Bool {
        let rows = try await pool.write(
            """
            UPDATE pushes
            SET state = 'halted',
                reason = $5
            WHERE id = $1
                AND state IN ('preparing', 'sending')
                AND EXISTS (
                    SELECT 1
                    FROM push_batches
                    WHERE push_id = $1
                        AND number = $2
                        AND lease = $3
                        AND claims = $4
                )
            """,
            [.uuid(claim.pushID), .int32(claim.number), .uuid(claim.lease), .int32(claim.claims), .text(reason)]
        )
        return rows.affectedRows > 0
    }

    // MARK: Leases

    /// Stores a new lease.
    func acquire(_ lease: UUID) async throws {
        _ = try await pool.write(
            """
            INSERT INTO push_leases (id, ends_at)
            VALUES ($1, now() + make_interval(secs => $2))
            """,
            [.uuid(lease), .float64(leaseSeconds)]
        )
    }

    /// The result of a renewal.
    struct Renewal: Sendable {
        /// Whether there are pushes being sent, by whichever server.
        let hasUnfinishedPushes: Bool
    }

    /// Renews a lease. Returns `nil` if another server has deleted it, and with it has taken over its batches.
    func renew(_ lease: UUID) async throws -> Renewal? {
        let rows = try await pool.write(
            """
            UPDATE push_leases
            SET ends_at = now() + make_interval(secs => $2)
            WHERE id = $1
            RETURNING EXISTS (SELECT 1 FROM pushes WHERE \(Self.isUnfinished))
            """,
            [.uuid(lease), .float64(leaseSeconds)]
        )
        return try rows.first.map { Renewal(hasUnfinishedPushes: try $0.decode(Bool.self)) }
    }

    /// Deletes a lease unless a batch is being sent under it. Returns whether it is gone.
    func release(_ lease: UUID) async throws -> Bool {
        try await pool.withTransaction { transaction in
            // A claim that is being committed locks the row: the next statement sees its batches.
            try await transaction.query("SELECT 1 FROM push_leases WHERE id = $1 FOR UPDATE", [.uuid(lease)])
            let rows = try await transaction.query(
                """
                WITH released AS (
                    DELETE FROM push_leases
                    WHERE id = $1
                        AND NOT EXISTS (SELECT 1 FROM push_batches WHERE lease = $1 AND state = 'sending')
                        AND NOT EXISTS (SELECT 1 FROM push_claims WHERE lease = $1)
                    RETURNING id
                )
                SELECT EXISTS (SELECT 1 FROM released) OR NOT EXISTS (SELECT 1 FROM push_leases WHERE id = $1)
                """,
                [.uuid(lease)]
            )
            return try rows.first?.decode(Bool.self) ?? true
        }
    }

    /// Reads the batches that are being sent under a lease, as far as the database knows, without their users.
    ///
    /// Those that the server does not know were claimed by a statement whose response was lost.
    func open(under lease: UUID) async throws -> [BatchClaim] {
        let rows = try await pool.read(
            """
            SELECT push_id, number, claims, origin, NULL AS settled
            FROM push_batches
            WHERE lease = $1
                AND state = 'sending'
            UNION ALL
            SELECT push_id, number, 1, NULL, settled::text
            FROM push_claims
            WHERE lease = $1
            """,
            [.uuid(lease)]
        )
        var claims: [BatchClaim] = []
        for row in rows {
            let (pushID, number, count, origin, settled) = try row.decode(
                UUID.self,
                Int32.self,
                Int32.self,
                Int32?.self,
                String?.self
            )
            func add(_ number: Int32, shared: Range<Int32>?) {
                claims.append(
                    BatchClaim(
                        pushID: pushID,
                        number: number,
                        userIDs: [],
                        attempts: 0,
                        claims: count,
                        origin: origin,
                        lease: lease,
                        shared: shared
                    )
                )
            }
            guard let settled else {
                add(number, shared: nil)
                continue
            }
            let shared = number..<number + Int32(clamping: settled.utf8.count)
            for (number, bit) in zip(shared, settled.utf8) where bit == UInt8(ascii: "0") {
                add(number, shared: shared)
            }
        }
        return claims
    }

    /// Takes over the batches of other servers whose leases have ended, and of leases that have no row. Returns how many of both there were.
    ///
    /// The batches are sent again where that is allowed, and marked, since their users may be reached twice; otherwise they are uncertain.
    ///
    /// - Parameter own: The lease of this server, which lives.
    func takeOver(except own: UUID) async throws -> (leases: Int, batches: Int) {
        let ended = try await pool.read(
            """
            SELECT id
            FROM push_leases
            WHERE ends_at <= now()
                AND id <> $1
            UNION
            SELECT lease
            FROM push_claims
            WHERE lease IS NOT NULL
                AND NOT EXISTS (SELECT 1 FROM push_leases WHERE id = lease)
            UNION
            SELECT lease
            FROM push_batches
            WHERE state = 'sending'
                AND NOT EXISTS (SELECT 1 FROM push_leases WHERE id = lease)
            """,
            [.uuid(own)]
        )
        guard !ended.isEmpty else { return (0, 0) }
        let ids = PostgresValue.uuids(try ended.map { try $0.decode(UUID?.self) }.compactMap(\.self))
        return try await pool.withTransaction { transaction in
            // A lease may have been renewed meanwhile; one that is locked belongs to a server that is claiming, or is being taken over.
            try await transaction.query(
                """
                DELETE FROM push_leases
                WHERE id IN (
                    SELECT id
                    FROM push_leases
                    WHERE id = ANY ($1)
                        AND ends_at <= now()
                    FOR UPDATE SKIP LOCKED
                )
                """,
                [ids]
            )
            let gone = try await transaction.query(
                "SELECT id FROM unnest($1::uuid[]) AS id WHERE NOT EXISTS (SELECT 1 FROM push_leases WHERE push_leases.id = id.id)",
                [ids]
            )
            let ids = PostgresValue.uuids(try gone.map { try $0.decode(UUID.self) })
            // Batches that share a row get rows of their own.
            try await transaction.query(
                """
                WITH claim AS MATERIALIZED (
                    SELECT push_id, number, batch_users, users, lease, settled
                    FROM push_claims
                    WHERE lease = ANY ($1)
                    ORDER BY push_id, number
                    FOR UPDATE
                ),
                cleared AS (
                    UPDATE push_claims
                    SET lease = NULL
                    FROM claim
                    WHERE push_claims.push_id = claim.push_id
                        AND push_claims.number = claim.number
                )
                \(Self.ownRows(of: "claim", places: "~settled"))
                """,
                [ids]
            )
            let batches = try await transaction.query(
                """
                WITH batch AS (
                    UPDATE push_batches AS batch
                    SET state = CASE WHEN push.delivery = 'at_least_once' THEN 'waiting' ELSE 'uncertain' END,
                        finished_at = CASE WHEN push.delivery = 'at_least_once' THEN NULL ELSE now() END,
                        next_attempt_at = now(),
                        may_repeat = batch.may_repeat OR push.delivery = 'at_least_once',
                        lease = NULL,
                        kakao_status = NULL,
                        kakao_code = NULL,
                        kakao_message = 'The server stopped before it recorded Kakao''s answer.'
                    FROM pushes AS push
                    WHERE batch.lease = ANY ($1)
                        AND batch.state = 'sending'
                        AND push.id = batch.push_id
                    RETURNING batch.push_id, batch.state, batch.users, 1 AS batches
                ),
                counted AS (
                    \(Self.countStatement(slot: "-2", of: "batch"))
                )
                SELECT count(*) FROM batch
                """,
                [ids]
            )
            return try (gone.count, batches.first.map { Int(try $0.decode(Int64.self)) } ?? 0)
        }
    }
}
