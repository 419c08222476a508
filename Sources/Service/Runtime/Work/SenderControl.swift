import Endpoints
import EventLoop
import FoundationEssentials
import Locking
import Logging
import Postgres

/// The switch that stops all that is sent: pushes and KakaoTalk messages, on all servers of a database.
///
/// It is a row that the statements that claim work read and lock. Nothing is claimed after the commit of a stop, even by a
/// server that has not been notified. What was claimed before is sent, or released within seconds.
package final class SenderControl: Sendable {
    /// A stop by an operator.
    package struct Stop: Sendable, Equatable {
        package let at: Date
        package let reason: String
        /// The name of the operator key.
        package let by: String
    }

    /// The position of the switch, as far as this server knows.
    package enum Position: Sendable, Equatable {
        case started
        case stopped(Stop)
        /// The database has not responded to this question yet.
        case unknown

        package init(_ stop: Stop?) {
            self = stop.map(Position.stopped) ?? .started
        }

        /// The stop in effect, if one is known.
        package var stop: Stop? {
            switch self {
            case .stopped(let stop): stop
            case .started, .unknown: nil
            }
        }
    }

    private let pool: PostgresPool
    private let query: CachedQuery<Stop?>
    private let lastPosition = Locked(Position.unknown)
    private let observers = Locked<[@Sendable () -> Void]>([])
    private let webhooks: WebhookNotice

    package init(pool: PostgresPool, webhooks: WebhookNotice) {
        self.pool = pool
        self.webhooks = webhooks
        query = CachedQuery(pool, Self.read)
    }

    /// Registers an observer of the switch, which wakes a sender on this server and on others. Called before the server
    /// starts.
    package func onChange(_ observer: @escaping @Sendable () -> Void) {
        observers.withLock { $0.append(observer) }
    }

    /// Returns the position of the switch, up to a few seconds old; the last known one if the database does not respond.
    package func position() async -> Position {
        if let stop = await query.value() { record(stop) }
        return lastKnownPosition
    }

    /// The position of the switch when the database last responded.
    package var lastKnownPosition: Position { lastPosition.withLock { $0 } }

    private func record(_ stop: Stop?) {
        lastPosition.withLock { $0 = Position(stop) }
    }

    /// Stops the sender. A sender that is stopped already remains so, for the earlier reason.
    ///
    /// - Parameter record: The record for the audit log.
    /// - Returns: The stop in effect.
    @discardableResult package func stop(
        reason: String,
        by name: String,
        recording record: AuditRecord?
    ) async throws -> Stop? {
        _ = try await pool.write(StopSender(reason: reason, by: name), recording: record) as Int
        return try await notifyAndRead()
    }

    /// Starts the sender again.
    ///
    /// - Parameter record: The record for the audit log.
    /// - Returns: The stop in effect: `nil`, unless another operator stops it at the same time.
    package func start(recording record: AuditRecord?) async throws -> Stop? {
        _ = try await pool.write(StartSender(), recording: record) as Int
        return try await notifyAndRead()
    }

    /// Stops the sender because PostgreSQL has lost commits, and records when. A sender that is stopped already gets a further reason.
    ///
    /// - Parameter earlier: The part of the reason that this server has stored before; `nil` if it has not.
    func recordLoss(reason: String, replacing earlier: String?, by name: String) async throws {
        _ = try await pool.write(RecordLostCommits(reason: reason, earlier: earlier, by: name)) as Int
        _ = try await notifyAndRead()
    }

    /// Wakes the senders of all servers.
    func changed() {
        for observer in observers.withLock({ $0 }) { observer() }
    }

    private func notifyAndRead() async throws -> Stop? {
        changed()
        webhooks.send()
        await query.invalidate()
        let stop = try await Self.read(pool)
        record(stop)
        return stop
    }

    /// Returns the worker that records for all servers whether pushes or messages are halted, as this one finds out.
    package func haltRecorder(
        _ availability: KakaoAvailability,
        on loop: EventLoop,
        logger: Logger
    ) -> BackgroundWorker {
        let signal = Signal(loop: loop)
        availability.onChange { signal.send() }
        return BackgroundWorker(
            "record-sender-halt",
            on: loop,
            every: .seconds(3600),
            firstAfter: .seconds(3600),
            signal: signal,
            retryAfter: .seconds(1),
            pace: nil,
            failure: "Halt of the sender not recorded",
            logger: logger
        ) { [pool, webhooks] _ in
            // Nothing is known before the first call to Kakao.
            guard availability.hasAnswer else { return nil }
            let sender = availability.openSender
            let reason = sender?.isHalted == true ? sender?.cause?.reason : nil
            if try await pool.write(RecordSenderHalt(reason: reason)) as Int > 0 {
                webhooks.send()
            }
            return nil
        }
    }

    @Sendable private static func read(_ pool: PostgresPool) async throws -> Stop? {
        try await pool.read(ReadSenderStop()).first
    }
}

// MARK: Statements

/// Stops the sender unless it is stopped. Waits for the claims in flight, which have locked the row.
struct StopSender: PostgresStatement {
    static let sql: SQL = """
        UPDATE sender
        SET stopped_at = now(),
            reason = $1,
            stopped_by = $2
        WHERE stopped_at IS NULL
        """

    let reason: String
    let by: String

    var parameters: [PostgresValue] { [.text(reason), .text(by)] }
}

/// Stops the sender, and records that commits were lost. A sender that is stopped already remains so, and the reason is added to the
/// earlier ones, in place of what this server has added before.
struct RecordLostCommits: PostgresStatement {
    static let sql: SQL = """
        UPDATE sender
        SET commits_lost_at = now(),
            stopped_at = COALESCE(stopped_at, now()),
            reason = CASE
                WHEN stopped_at IS NULL THEN $1
                -- The response to this statement was lost.
                WHEN position($1 IN reason) > 0 THEN reason
                WHEN position($2 IN reason) > 0 THEN replace(reason, $2, $1)
                -- Bounded, however often commits are lost before an operator comes.
                ELSE left(reason || ' ' || $1, 4000)
            END,
            stopped_by = COALESCE(stopped_by, $3)
        """

    let reason: String
    /// `nil` if this server has added nothing.
    let earlier: String?
    let by: String

    var parameters: [PostgresValue] { [.text(reason), .text(earlier), .text(by)] }
}

/// Starts the sender.
struct StartSender: PostgresStatement {
    static let sql: SQL = """
        UPDATE sender
        SET stopped_at = NULL,
            reason = NULL,
            stopped_by = NULL
        WHERE stopped_at IS NOT NULL
        """
}

/// Records why Kakao rejects calls, or that it accepts them.
struct RecordSenderHalt: PostgresStatement {
    static let sql: SQL = """
        UPDATE sender
        SET halted_at = CASE WHEN $1::text IS NOT NULL THEN COALESCE(halted_at, now()) END,
            halt_reason = $1
        WHERE halt_reason IS DISTINCT FROM $1
        """

    /// `nil` if Kakao accepts calls.
    let reason: String?

    var parameters: [PostgresValue] { [.text(reason)] }
}

/// Reads the stop in effect. Returns no row while the sender runs.
struct ReadSenderStop: PostgresStatement {
    static let sql: SQL = """
        SELECT stopped_at, reason, stopped_by
        FROM sender
        WHERE stopped_at IS NOT NULL
        """

    static func decode(_ row: PostgresRow) throws -> SenderControl.Stop {
        try row.decode { try SenderControl.Stop(at: $0.next(), reason: $0.next(), by: $0.next()) }
    }
}
