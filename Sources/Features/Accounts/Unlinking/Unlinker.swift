import Endpoints
import EventLoop
import FoundationEssentials
import HTTPServer
import KakaoAPI
import Locking
import Logging
import Postgres
import Runtime
import ServiceKit

/// The end of users' logins, here and at Kakao, on one event loop.
///
/// An unlink is stored first, with its consequences: while Kakao is unavailable, a worker carries it out later.
struct Unlinker: Sendable {
    /// The duration of a lease. It exceeds the time limit of the call to Kakao.
    private static let leaseDuration = Duration.seconds(60)
    /// The part of a lease within which the call to Kakao must begin. A user who logs in later is not unlinked.
    private static let startLimit = leaseDuration / 3
    private static let retryDelay = RetryDelay(first: .seconds(5), longest: .seconds(600))

    let pool: PostgresPool
    let kakao: KakaoClient
    let observers: UserLifecycle.Observers
    /// The unlinks of the last minutes, for the case that PostgreSQL loses them.
    let known: Locked<RecentValues<Int64, KnownUnlink>>
    let logger: Logger

    /// Unlinks a user: deletes the tokens, withdraws the devices, and calls Kakao.
    ///
    /// - Returns: Whether Kakao has unlinked the user, who may have been unlinked before; otherwise it is tried again.
    /// - Throws: ``Problem`` if Kakao rejects the call.
    func unlink(_ userID: Int64) async throws -> Bool {
        let latestStart = Self.latestStart
        guard let claim = try await store(userID) else { return false }
        return try await carryOut(claim, startingBefore: latestStart)
    }

    /// Carries out the consequences of an unlink that Kakao has confirmed.
    func recordUnlink(_ userID: Int64) async throws {
        try await applyEvent(userID, .left, UserEvent.unlinkCall)
    }

    /// Carries out the consequences of a logout: the tokens are deleted, and no server trusts the user's tokens without
    /// asking Kakao.
    func recordLogout(_ userID: Int64) async throws {
        try await applyEvent(userID, .tokensRevoked, UserEvent.logout)
    }

    private func applyEvent(_ userID: Int64, _ kind: UserEvent.Kind, _ type: String) async throws {
        let actions = try await pool.withTransaction { transaction in
            guard let now = try await transaction.query(ReadTransactionTime()).first else {
                throw PostgresError(.decoding)
            }
            let unlink = KnownUnlink(requestedAt: now, isPending: false)
            if kind == .left { try await transaction.query(RecordUnlink(userID: userID, requestedAt: now)) }
            let actions = try await observers.apply(
                [UserEvent(userID: userID, kind: kind, type: type, happenedAt: now)],
                in: transaction
            )
            return kind == .left ? actions + [{ [known] in known.withLock { $0.store(unlink, for: userID) } }] : actions
        }
        for action in actions { action() }
    }

    /// Stores an unlink and its consequences, and leases it. Returns `nil` if another request or server carries it out.
    private func store(_ userID: Int64) async throws -> PendingUnlink? {
        let (stored, actions) = try await pool.withTransaction { transaction in
            _ = try await transaction.query(LockUser(userID: userID)) as [Void]
            return try await store(
                StorePendingUnlink(userID: userID, requestedAt: nil, lease: .v7(), duration: Self.leaseDuration),
                in: transaction
            )
        }
        for action in actions { action() }
        keep(stored.unlink, isPending: true)
        return stored.isClaimed ? stored.unlink : nil
    }

    private func store(
        _ statement: StorePendingUnlink,
        in transaction: PostgresTransaction
    ) async throws -> (StorePendingUnlink.Row, [@Sendable () -> Void]) {
        guard let stored = try await transaction.query(statement).first else { throw PostgresError(.decoding) }
        return (stored, try await observers.apply([stored.unlink.event], in: transaction))
    }

    /// Keeps an unlink for the case that PostgreSQL loses it.
    private func keep(_ unlink: PendingUnlink, isPending: Bool) {
        let known = KnownUnlink(requestedAt: unlink.requestedAt, isPending: isPending)
        self.known.withLock { $0.store(known, for: unlink.userID) }
    }

    /// Compares the known unlinks with the database, which may have lost them, and stores them again with their consequences. Kakao is
    /// called in the background about those that it has not confirmed.
    ///
    /// - Parameter report: Records the number of unlinks that are missing.
    func restore(_ report: LostCommits.Report) async throws {
        let known = known.withLock { $0.all }
        guard !known.isEmpty else { return }
        let lost = try await pool.read(FindLostUnlinks(unlinks: known.mapValues(\.requestedAt)))
        try await report(lost.count, [])
        for userID in lost {
            guard let unlink = known[userID] else { continue }
            let actions = try await pool.withTransaction { transaction in
                _ = try await transaction.query(LockUser(userID: userID)) as [Void]
                // The user may have logged in since.
                let find = FindLostUnlinks(unlinks: [userID: unlink.requestedAt])
                guard try await !transaction.query(find).isEmpty else { return [@Sendable () -> Void]() }
                guard unlink.isPending else {
                    try await transaction.query(RecordUnlink(userID: userID, requestedAt: unlink.requestedAt))
                    return try await observers.apply([unlink.event(of: userID)], in: transaction)
                }
                // The lease has ended at once, so that the worker carries it out.
                return try await store(
                    StorePendingUnlink(
                        userID: userID,
                        requestedAt: unlink.requestedAt,
                        lease: .v7(),
                        duration: .zero
                    ),
                    in: transaction
                ).1
            }
            for action in actions { action() }
        }
    }

    /// Calls Kakao for an unlink that is leased.
    ///
    /// - Parameter latestStart: The value of ``latestStart`` before the lease.
    /// - Returns: Whether it is done; `false` if Kakao is unavailable.
    /// - Throws: ``Problem`` if Kakao rejects the call.
    private func carryOut(_ unlink: PendingUnlink, startingBefore latestStart: UInt64) async throws -> Bool {
        do throws(KakaoError) {
            _ = try await kakao.call(UnlinkUser(), as: .adminKeyForUser(unlink.userID), startingBefore: latestStart)
        } catch {
            switch error.unlinkOutcome {
            case .done: break
            case .retry:
                logger.info("Unlink postponed", metadata: ["user_id": "\(unlink.userID)", "kakao": "\(error)"])
                let delay = Self.retryDelay.after(unlink.attempts + 1, atLeast: error.retryAfter ?? .zero)
                try await pool.write(PostponeUnlink(unlink: unlink, delay: delay))
                if error.disposition == .halt { throw Problem(error, about: "the unlink", isIdempotent: true) }
                return false
            case .rejected:
                logger.warning(
                    "Unlink rejected by Kakao",
                    metadata: ["user_id": "\(unlink.userID)", "kakao": "\(error)"]
                )
                try await pool.write(DeletePendingUnlink(unlink: unlink))
                keep(unlink, isPending: false)
                throw Problem(error, about: "the unlink", isIdempotent: true)
            }
        }
        if try await pool.write(DeletePendingUnlink(unlink: unlink)) == 0 {
            // The user has logged in during the call, and Kakao may have unlinked the new login. Its first use shows it.
            try await pool.write(ExpireAccessToken(userID: unlink.userID, pause: .zero))
        }
        keep(unlink, isPending: false)
        return true
    }

    /// The latest start of a call under a lease that is requested now, in milliseconds of the loop's clock.
    private static var latestStart: UInt64 { EventLoop.milliseconds() + startLimit.wholeMilliseconds }

    /// Returns the worker that carries out unlinks that were stored while Kakao was unavailable, or whose server has
    /// stopped.
    func worker(on loop: LoopServices, pace: PollPace) -> BackgroundWorker {
        BackgroundWorker(
            "unlink-users",
            on: loop.loop,
            every: .seconds(10),
            pace: pace,
            failure: "Unlinks not carried out",
            logger: logger
        ) { _ in
            let latestStart = Self.latestStart
            let claim = ClaimUnlink(lease: .v7(), duration: Self.leaseDuration)
            guard let unlink = try await pool.write(claim).first else { return nil }
            // The log has the reason of a rejection.
            do { _ = try await carryOut(unlink, startingBefore: latestStart) } catch is Problem {}
            return .zero
        }
    }
}

/// An unlink that this server has stored or carried out.
struct KnownUnlink: Sendable {
    /// By the database's clock.
    let requestedAt: Date
    /// Whether Kakao may yet have to be called, as far as this server knows.
    let isPending: Bool

    fileprivate func event(of userID: Int64) -> UserEvent {
        UserEvent(userID: userID, kind: .left, type: UserEvent.unlinkCall, happenedAt: requestedAt)
    }
}

/// A pending unlink, leased by this server.
struct PendingUnlink: Sendable {
    let userID: Int64
    let lease: UUID
    let attempts: Int
    let requestedAt: Date
}

extension PendingUnlink {
    fileprivate static let columns: SQL = "pending.user_id, pending.lease, pending.attempts, pending.requested_at"

    fileprivate init(_ column: inout ColumnCursor) throws {
        try self.init(
            userID: column.next(),
            lease: column.next(),
            attempts: Int(column.next(Int32.self)),
            requestedAt: column.next()
        )
    }

    fileprivate var event: UserEvent { KnownUnlink(requestedAt: requestedAt, isPending: true).event(of: userID) }
}

extension KakaoError {
    fileprivate enum UnlinkOutcome {
        /// Kakao has unlinked the user, now or before.
        case done
        case retry
        case rejected
    }

    /// The outcome of an unlink with the Admin key that ended in this error.
    ///
    /// Only -101 means that the user is unlinked. -401 is a fault of the configuration: the unlink is not done.
    fileprivate var unlinkOutcome: UnlinkOutcome {
        if code == .userNotLinked { return .done }
        switch disposition {
        case .retry, .unrecognized, .wait, .halt: return .retry
        case .logIn, .consent, .invalid, .fail: return .rejected
        }
    }
}

// MARK: Statements

/// Stores a pending unlink, and leases it unless another server holds a valid lease. Returns the valid lease, and whether it
/// is the new one.
struct StorePendingUnlink: PostgresStatement {
    static let sql: SQL = """
        WITH request AS MATERIALIZED (
            SELECT COALESCE($4, clock_timestamp()) AS requested_at
        ),
        recorded AS (
            INSERT INTO requested_unlinks AS recorded (user_id, requested_at)
            SELECT $1, requested_at
            FROM request
            ON CONFLICT (user_id) DO UPDATE
            SET requested_at = GREATEST(recorded.requested_at, excluded.requested_at)
        )
        INSERT INTO pending_unlinks AS pending (user_id, requested_at, lease, lease_ends_at)
        SELECT $1, requested_at, $2, now() + make_interval(secs => $3)
        FROM request
        ON CONFLICT (user_id) DO UPDATE
        SET requested_at = excluded.requested_at,
            lease = CASE WHEN pending.lease_ends_at > now() THEN pending.lease ELSE excluded.lease END,
            lease_ends_at = CASE
                WHEN pending.lease_ends_at > now() THEN pending.lease_ends_at
                ELSE excluded.lease_ends_at
            END
        RETURNING \(PendingUnlink.columns), lease = $2
        """

    let userID: Int64
    /// `nil` for now.
    let requestedAt: Date?
    let lease: UUID
    let duration: Duration

    var parameters: [PostgresValue] {
        [.int64(userID), .uuid(lease), .float64(duration.inSeconds), .timestamp(requestedAt)]
    }

    static func decode(_ row: PostgresRow) throws -> (unlink: PendingUnlink, isClaimed: Bool) {
        try row.decode { try (PendingUnlink(&$0), $0.next()) }
    }
}

/// Records when a user was unlinked.
struct RecordUnlink: PostgresStatement {
    static let sql: SQL = """
        INSERT INTO requested_unlinks AS recorded (user_id, requested_at)
        VALUES ($1, $2)
        ON CONFLICT (user_id) DO UPDATE
        SET requested_at = GREATEST(recorded.requested_at, excluded.requested_at)
        """

    let userID: Int64
    let requestedAt: Date

    var parameters: [PostgresValue] { [.int64(userID), .timestamp(requestedAt)] }
}

/// Finds the users whose unlink is not recorded, except those who have logged in since.
struct FindLostUnlinks: PostgresStatement {
    static let sql: SQL = """
        SELECT user_id
        FROM unnest($1::bigint[], $2::timestamptz[]) AS given (user_id, requested_at)
        WHERE NOT EXISTS (
                SELECT 1
                FROM requested_unlinks AS recorded
                WHERE recorded.user_id = given.user_id
                    AND recorded.requested_at >= given.requested_at
            )
            AND NOT EXISTS (
                SELECT 1
                FROM accounts
                WHERE accounts.user_id = given.user_id
                    AND linked_at > given.requested_at
            )
        ORDER BY user_id
        """

    /// When users were unlinked.
    let unlinks: [Int64: Date]

    var parameters: [PostgresValue] {
        let unlinks = Array(unlinks)
        return [.int64s(unlinks.map(\.key)), .timestamps(unlinks.map(\.value))]
    }

    static func decode(_ row: PostgresRow) throws -> Int64 { try row.decode(Int64.self) }
}

/// Deletes up to `limit` records of unlinks of more than a day ago. Skips rows that another server is deleting.
struct DeleteOldUnlinks: PostgresStatement {
    static let sql: SQL = """
        DELETE FROM requested_unlinks
        WHERE user_id IN (
            SELECT user_id
            FROM requested_unlinks
            WHERE requested_at < now() - interval '1 day'
            LIMIT $1
            FOR UPDATE SKIP LOCKED
        )
        """

    let limit: Int

    var parameters: [PostgresValue] { [.int64(Int64(limit))] }
}

/// Leases the unlink that has been due for the longest time.
struct ClaimUnlink: PostgresStatement {
    static let sql: SQL = """
        WITH due AS (
            SELECT user_id
            FROM pending_unlinks
            WHERE next_attempt_at <= now()
                AND (lease IS NULL OR lease_ends_at <= now())
            ORDER BY next_attempt_at
            LIMIT 1
            FOR UPDATE SKIP LOCKED
        )
        UPDATE pending_unlinks AS pending
        SET lease = $1,
            lease_ends_at = now() + make_interval(secs => $2)
        FROM due
        WHERE pending.user_id = due.user_id
        RETURNING \(PendingUnlink.columns)
        """

    let lease: UUID
    let duration: Duration

    var parameters: [PostgresValue] { [.uuid(lease), .float64(duration.inSeconds)] }
    static func decode(_ row: PostgresRow) throws -> PendingUnlink {
        try row.decode { try PendingUnlink(&$0) }
    }
}

/// Releases an unlink until its next attempt. Changes nothing under another lease.
struct PostponeUnlink: PostgresStatement {
    static let sql: SQL = """
        UPDATE pending_unlinks
        SET attempts = attempts + 1,
            next_attempt_at = now() + make_interval(secs => $3),
            lease = NULL,
            lease_ends_at = NULL
        WHERE user_id = $1
            AND lease = $2
        """

    let unlink: PendingUnlink
    let delay: Duration

    var parameters: [PostgresValue] { [.int64(unlink.userID), .uuid(unlink.lease), .float64(delay.inSeconds)] }
}

/// Deletes an unlink that is done. Changes nothing under another lease.
struct DeletePendingUnlink: PostgresStatement {
    static let sql: SQL = """
        DELETE FROM pending_unlinks
        WHERE user_id = $1
            AND lease = $2
        """

    let unlink: PendingUnlink

    var parameters: [PostgresValue] { [.int64(unlink.userID), .uuid(unlink.lease)] }
}
