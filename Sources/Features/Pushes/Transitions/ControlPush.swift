import Endpoints
import FoundationEssentials
import Postgres

extension PushStore {
    /// Changes the state of a push on an operator's request. Returns whether its state allowed that.
    ///
    /// - Parameters:
    ///   - operator: The name of the operator key of the request.
    ///   - retriesUncertain: Whether a retry includes uncertain batches, whose users may be reached twice.
    ///   - hours: The hours for advertising.
    ///   - record: The record for the audit log.
    func control(
        _ id: UUID,
        _ control: PushControl,
        by operator: String?,
        retriesUncertain: Bool = false,
        hours: PostgresValue,
        recording record: AuditRecord?
    ) async throws -> Bool {
        func change<Statement: PostgresStatement>(_ statement: Statement) async throws -> Bool
        where Statement.Row == Never {
            try await pool.write(statement, recording: record) > 0
        }
        return switch control {
        case .pause: try await change(PausePush(id: id, operator: `operator`))
        case .resume: try await change(ResumePush(id: id))
        case .cancel: try await change(CancelPush(id: id, operator: `operator`, hours: hours))
        case .retry: try await change(RetryPush(id: id, includesUncertain: retriesUncertain))
        }
    }
}

/// Pauses a push.
struct PausePush: PostgresStatement {
    static let sql: SQL = """
        UPDATE pushes
        SET state = 'paused',
            reason = NULL,
            stopped_by = $3
        WHERE id = $1
            AND state = ANY ($2)
        """

    let id: UUID
    /// The name of the operator key.
    let `operator`: String?

    var parameters: [PostgresValue] { [.uuid(id), .states(before: .pause), .text(`operator`)] }
}

/// Resumes a paused or halted push at the step at which it stopped, unless it needs an approval (``ApprovePush``).
struct ResumePush: PostgresStatement {
    static let sql: SQL = """
        UPDATE pushes
        SET state = CASE
                WHEN prepared_at IS NOT NULL THEN 'sending'
                WHEN started_at IS NULL AND send_at > now() THEN 'scheduled'
                ELSE 'preparing'
            END,
            reason = NULL,
            probe = NULL,
            stopped_by = NULL
        WHERE id = $1
            AND state = ANY ($2)
            AND NOT push_awaits_approval(state, created_at, expires_at, prepared_at, users - users_skipped, allowed_users)
        """

    let id: UUID

    var parameters: [PostgresValue] { [.uuid(id), .states(before: .resume)] }
}

/// Cancels a push.
struct CancelPush: PostgresStatement {
    static let sql: SQL = """
        UPDATE pushes
        SET state = 'canceled',
            reason = NULL,
            stopped_by = $3,
            finished_at = now(),
            ended_at_night = NOT \(AdvertisingHours.admit(hours: "$4", at: "now()"))
        WHERE id = $1
            AND state = ANY ($2)
        """

    let id: UUID
    /// The name of the operator key.
    let `operator`: String?
    /// The hours for advertising: ``AdvertisingHours/parameter(in:)``.
    let hours: PostgresValue

    var parameters: [PostgresValue] { [.uuid(id), .states(before: .cancel), .text(`operator`), hours] }
}

/// Begins the retry of a finished push, if it has batches to retry. ``RetryBatches`` makes them waiting, in steps.
struct RetryPush: PostgresStatement {
    static let sql: SQL = """
        UPDATE pushes
        SET state = 'sending',
            finished_at = NULL,
            retry_position = 0,
            retry_end = next_number,
            retry_uncertain = $3
        WHERE id = $1
            AND state = ANY ($2)
            AND removed_at IS NULL
            AND (expires_at IS NULL OR expires_at > now())
            AND (
                SELECT COALESCE(sum(counts.batches), 0) > 0
                FROM push_counts AS counts
                WHERE counts.push_id = $1
                    AND (counts.state = 'failed' OR counts.state = 'uncertain' AND $3)
            )
        """

    let id: UUID
    let includesUncertain: Bool

    var parameters: [PostgresValue] { [.uuid(id), .states(before: .retry), .bool(includesUncertain)] }
}
