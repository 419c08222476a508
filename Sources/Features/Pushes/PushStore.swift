import Endpoints
import FoundationEssentials
import Postgres
import Runtime

/// Creates and controls pushes in PostgreSQL. ``PushReads`` shows them.
struct PushStore: Sendable {
    let pool: PostgresPool

    /// Stores a push to be prepared and sent. Returns after it is committed.
    ///
    /// - Parameters:
    ///   - push: The push, to which a warning about devices is added if it ``NewPush/checksDevices``.
    ///   - answer: The response to the request and to its repetitions.
    ///   - now: The time of the request.
    /// - Throws: ``Problem`` if another request has used the key, if the times of the push are past, or if it refers to an audience or
    ///   a push that does not exist, or to a push whose users it cannot leave out; ``PostgresError``.
    func create(
        _ push: inout NewPush,
        idempotency: Idempotency?,
        answer: [UInt8],
        now: Date
    ) async throws -> Creation {
        let create = CreatePush(push: push, idempotency: idempotency, response: answer, now: now)
        if let hasPendingDevices = try await pool.write(create).first {
            if hasPendingDevices { push.preview.add(.pendingDevices) }
            return Creation(id: push.id, body: answer)
        }
        if let earlier = try await earlierCreation(idempotency) { return earlier }
        try await push.times.check(pool)
        let object = try await pool.read(FindInvalidObject(push: push)).first ?? nil
        throw (object ?? .audience).problem
    }

    /// Returns the outcome of an earlier request with an idempotency key; `nil` if there is none.
    ///
    /// - Throws: ``Problem`` 422 if another request has used the key; ``PostgresError``.
    func earlierCreation(_ idempotency: Idempotency?) async throws -> Creation? {
        guard let idempotency, let found = try await pool.read(FindIdempotentRequest(idempotency: idempotency)).first
        else { return nil }
        guard let earlier = found else { throw Idempotency.keyInUse }
        return earlier
    }
}

// MARK: Statements

/// Finds an earlier request with an idempotency key.
struct FindIdempotentRequest: PostgresStatement {
    static let sql: SQL = """
        SELECT push_id, answer, sha256 = $3
        FROM idempotency_keys
        WHERE (operator_key, key) = ($1, $2)
        """

    let idempotency: Idempotency

    var parameters: [PostgresValue] { idempotency.parameters }
    static func decode(_ row: PostgresRow) throws -> Creation? { try Creation.decode(row) }
}
