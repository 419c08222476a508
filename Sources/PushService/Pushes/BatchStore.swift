internal import FoundationEssentials
internal import KakaoAPI
internal import Postgres

/// The batches in PostgreSQL, as the sender works on them.
///
/// Each change of a batch is guarded by its state and by the lease it was claimed under: a server that was taken for dead can no
/// longer change anything.
final class BatchStore: Sendable {
    /// How long a lease lasts unless it is renewed: longer than a call to Kakao may take, short enough for another server to take over
    /// in seconds.
    static let leaseSeconds = 20.0

    let pool: PostgresPool
    /// Servers that count for one push do so in rows of their own, mostly: nobody waits for another's commit.
    let slot = Int32.random(in: 0..<64)
    let results: StatementCoalescer<BatchResult, Void>
    let settlements: StatementCoalescer<Settlement, Void>

    init(pool: PostgresPool) {
        self.pool = pool
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
        let message: PushMessage
        let bypass: Bool
        let delivery: Delivery
        let usersPerSecond: Int32?
        let expiresAt: Date?
    }

    /// What there is to do.
    struct Look: Sendable {
        /// The pushes that are being sent.
        var ids: [UUID] = []
        /// Those of them that were not known.
        var new: [Active] = []
        /// Those of which not everything has become batches.
        var unprepared: Set<UUID> = []
        /// The time until the next one that is scheduled for soon; negative when that is over.
        var nextStart: Duration?
    }

    /// The pushes that have batches to be sent, now or later, the oldest first.
    ///
    /// - Parameter known: Those that need not be told again.
    func active(besides known: [UUID]) async throws -> Look {
        let rows = try await pool.read(
            """
            SELECT id, NOT id = ANY ($1), CASE WHEN NOT id = ANY ($1) THEN message ELSE '' END, message_version, bypass,
                delivery, users_per_second, expires_at, prepared_at IS NOT NULL,
                CASE WHEN state = 'scheduled' THEN EXTRACT(epoch FROM send_at - now())::float8 END
            FROM pushes
            WHERE state IN ('scheduled', 'preparing', 'sending')
                AND (state <> 'scheduled' OR send_at <= now() + interval '10 s')
            ORDER BY id
            LIMIT 5000
            """,
            [.uuids(known)]
        )
        var look = Look()
        for row in rows {
            let (
                id, isNew, message, version, bypass, delivery, usersPerSecond, expiresAt, isPrepared, startsIn
            ) = try row.decode(
                UUID.self,
                Bool.self,
                String.self,
                String.self,
                Bool.self,
                String.self,
                Int32?.self,
                Date?.self,
                Bool.self,
                Double?.self
            )
            if let startsIn, startsIn > 0 {
                look.nextStart = min(look.nextStart ?? .seconds(10), .seconds(startsIn))
                continue
            }
            look.ids.append(id)
            if !isPrepared { look.unprepared.insert(id) }
            guard isNew else { continue }
            look.new.append(
                Active(
                    id: id,
                    message: PushMessage(text: message, version: PushVersion(rawValue: version) ?? .v1),
                    bypass: bypass,
                    delivery: Delivery(rawValue: delivery) ?? .atLeastOnce,
                    usersPerSecond: usersPerSecond,
                    expiresAt: expiresAt
                )
            )
        }
        return look
    }

    /// Ends those pushes of which nothing is left to be sent. Returns which.
    ///
    /// By what was counted, and so after the results are committed: of two servers that finish the last two batches, the later sees
    /// both.
    func endFinished(_ ids: [UUID]) async throws -> [UUID] {
        let rows = try await pool.write(
            """
            UPDATE pushes AS push
            SET state = 'done',
                finished_at = now()
            WHERE push.id = ANY ($1)
                AND push.state = 'sending'
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

    /// Stops a push until an operator resumes it.
    func halt(_ id: UUID, reason: String) async throws {
        _ = try await pool.write(
            """
            UPDATE pushes
            SET state = 'halted',
                reason = $2
            WHERE id = $1
                AND state IN ('preparing', 'sending')
            """,
            [.uuid(id), .text(reason)]
        )
    }

    // MARK: Leases

    /// Renews a lease. Returns whether it still was there: otherwise another server has taken its batches over.
    func renew(_ lease: UUID) async throws -> Bool {
        let rows = try await pool.write(
            """
            UPDATE push_leases
            SET ends_at = now() + make_interval(secs => $2)
            WHERE id = $1
            """,
            [.uuid(lease), .float64(Self.leaseSeconds)]
        )
        return rows.affectedRows > 0
    }

    /// Gives a lease up under which nothing is in hand any more.
    func giveUp(_ lease: UUID) async throws {
        _ = try await pool.write(
            """
            DELETE FROM push_leases
            WHERE id = $1
                AND NOT EXISTS (SELECT 1 FROM push_batches WHERE lease = $1 AND state = 'sending')
                AND NOT EXISTS (SELECT 1 FROM push_claims WHERE lease = $1)
            """,
            [.uuid(lease)]
        )
    }

    /// Takes over the batches of servers whose leases have ended. Returns how many of both there were.
    ///
    /// They are sent again where that is allowed, and marked, since their users may be reached twice; elsewhere nobody knows. A lease
    /// that ended while PostgreSQL was down is given the time of another one: its server could not renew it.
    func takeOver() async throws -> (leases: Int, batches: Int) {
        let ended = try await pool.read(
            """
            SELECT id
            FROM push_leases
            WHERE ends_at <= now()
                AND pg_postmaster_start_time() <= now() - make_interval(secs => $1)
            """,
            [.float64(Self.leaseSeconds)]
        )
        guard !ended.isEmpty else { return (0, 0) }
        let ids = PostgresValue.uuids(try ended.map { try $0.decode(UUID.self) })
        return try await pool.withTransaction { transaction in
            // It may have been renewed meanwhile, or taken over.
            let leases = try await transaction.query(
                "DELETE FROM push_leases WHERE id = ANY ($1) AND ends_at <= now() RETURNING id",
                [ids]
            )
            let ids = PostgresValue.uuids(try leases.map { try $0.decode(UUID.self) })
            // What was under way at its first attempt gets rows of its own.
            try await transaction.query(
                """
                WITH claim AS MATERIALIZED (
                    SELECT push_id, number, batch_users, users, lease, settled
                    FROM push_claims
                    WHERE lease = ANY ($1)
                    ORDER BY push_id, number
                    FOR UPDATE
                )
                \(Self.ownRows(of: "claim", places: "~settled"))
                """,
                [ids]
            )
            try await transaction.query("UPDATE push_claims SET lease = NULL WHERE lease = ANY ($1)", [ids])
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
                        kakao_message = 'The server that sent it did not live to say what Kakao answered.'
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
            return try (leases.count, batches.first.map { Int(try $0.decode(Int64.self)) } ?? 0)
        }
    }
}
