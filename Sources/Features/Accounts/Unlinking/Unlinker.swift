import Endpoints
import EventLoop
import FoundationEssentials
import HTTPServer
import KakaoAPI
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
            return try await observers.apply(
                [UserEvent(userID: userID, kind: kind, type: type, happenedAt: now)],
                in: transaction
            )
        }
        for action in actions { action() }
    }

    /// Stores an unlink and its consequences, and leases it. Returns `nil` if another request or server carries it out.
    private func store(_ userID: Int64) async throws -> PendingUnlink? {
        let (claim, actions) = try await pool.withTransaction { transaction in
            _ = try await transaction.query(LockUser(userID: userID)) as [Void]
            let stored = try await transaction.query(
                StorePendingUnlink(userID: userID, lease: .v7(), duration: Self.leaseDuration)
            ).first
            guard let stored else { throw PostgresError(.decoding) }
            let event = UserEvent(
                userID: userID,
                kind: .left,
                type: UserEvent.unlinkCall,
                happenedAt: stored.requestedAt
            )
            let actions = try await observers.apply([event], in: transaction)
            return (stored.isClaimed ? stored.unlink : nil, actions)
        }
        for action in actions { action() }
        return claim
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
                throw Problem(error, about: "the unlink", isIdempotent: true)
            }
        }
        if try await pool.write(DeletePendingUnlink(unlink: unlink)) == 0 {
            // The user has logged in during the call, and Kakao may have unlinked the new login. Its first use shows it.
            try await pool.write(ExpireAccessToken(userID: unlink.userID, pause: .zero))
        }
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

/// A pending unlink, leased by this server.
struct PendingUnlink: Sendable {
    let userID: Int64
    let lease: UUID
    let attempts: Int
}

extension PendingUnlink {
    fileprivate init(_ column: inout ColumnCursor) throws {
        try self.init(userID: column.next(), lease: column.next(), attempts: Int(column.next(Int32.self)))
    }
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
        INSERT INTO pending_unlinks AS pending (user_id, requested_at, lease, lease_ends_at)
        VALUES ($1, clock_timestamp(), $2, now() + make_interval(secs => $3))
        ON CONFLICT (user_id) DO UPDATE
        SET requested_at = excluded.requested_at,
            lease = CASE WHEN pending.lease_ends_at > now() THEN pending.lease ELSE excluded.lease END,
            lease_ends_at = CASE
                WHEN pending.lease_ends_at > now() THEN pending.lease_ends_at
                ELSE excluded.lease_ends_at
            END
        RETURNING user_id, lease, attempts, requested_at, lease = $2
        """

    let userID: Int64
    let lease: UUID
    let duration: Duration

    var parameters: [PostgresValue] { [.int64(userID), .uuid(lease), .float64(duration.inSeconds)] }
    static func decode(_ row: PostgresRow) throws -> (unlink: PendingUnlink, requestedAt: Date, isClaimed: Bool) {
        try row.decode { try (PendingUnlink(&$0), $0.next(), $0.next()) }
    }
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
        RETURNING pending.user_id, lease, attempts
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
