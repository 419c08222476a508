internal import FoundationEssentials
internal import Postgres

extension PushStore {
    /// Changes the state of a push on an operator's request. Returns whether its state allowed that.
    ///
    /// - Parameter retriesUncertain: Whether a retry includes uncertain batches, whose users may be reached twice.
    func control(_ id: UUID, _ control: PushControl, retriesUncertain: Bool = false) async throws -> Bool {
        let changed =
            switch control {
            case .pause: try await pool.write(PausePush(id: id)) as Int
            case .resume: try await pool.write(ResumePush(id: id)) as Int
            case .cancel: try await pool.write(CancelPush(id: id)) as Int
            case .retry: try await pool.write(RetryPush(id: id, includesUncertain: retriesUncertain)) as Int
            }
        return changed > 0
    }
}

/// Pauses a push.
struct PausePush: PostgresStatement {
    static let sql: SQL = """
        UPDATE pushes
        SET state = 'paused',
            reason = NULL
        WHERE id = $1
            AND state = ANY ($2)
        """

    let id: UUID

    var parameters: [PostgresValue] { [.uuid(id), .states(before: .pause)] }
}

/// Resumes a paused or halted push at the step at which it stopped.
struct ResumePush: PostgresStatement {
    static let sql: SQL = """
        UPDATE pushes
        SET state = CASE
                WHEN prepared_at IS NOT NULL THEN 'sending'
                WHEN started_at IS NULL AND send_at > now() THEN 'scheduled'
                ELSE 'preparing'
            END,
            reason = NULL,
            probe = NULL
        WHERE id = $1
            AND state = ANY ($2)
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
            finished_at = now()
        WHERE id = $1
            AND state = ANY ($2)
        """

    let id: UUID

    var parameters: [PostgresValue] { [.uuid(id), .states(before: .cancel)] }
}

/// Begins the retry of a finished push. ``RetryBatches`` makes its batches waiting, in steps.
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
        """

    let id: UUID
    let includesUncertain: Bool

    var parameters: [PostgresValue] { [.uuid(id), .states(before: .retry), .bool(includesUncertain)] }
}
