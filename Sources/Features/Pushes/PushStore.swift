import Endpoints
import FoundationEssentials
import Postgres

/// Creates and controls pushes in PostgreSQL. ``PushReads`` shows them.
struct PushStore: Sendable {
    let pool: PostgresPool

    enum Creation: Sendable {
        case created
        /// A repetition of an earlier request, with its response.
        case repeated(pushID: UUID, answer: [UInt8])
        /// Another request has used the key.
        case keyInUse
        /// The push refers to an audience or a push that does not exist, or to a push whose users it cannot leave out.
        case invalid(NewPush.NamedObject)
    }

    /// Stores a push to be prepared and sent. Returns after it is committed.
    ///
    /// - Parameters:
    ///   - answer: The response to the request and to its repetitions.
    ///   - now: The time of the request.
    func create(_ push: NewPush, idempotency: Idempotency?, answer: [UInt8], now: Date) async throws -> Creation {
        let create = CreatePush(push: push, idempotency: idempotency, response: answer, now: now)
        guard try await pool.write(create).isEmpty else { return .created }
        if let earlier = try await earlierCreation(idempotency) { return earlier }
        let object = try await pool.read(FindInvalidObject(push: push)).first ?? nil
        return .invalid(object ?? .audience)
    }

    /// Returns the outcome of an earlier request with an idempotency key; `nil` if there is none.
    func earlierCreation(_ idempotency: Idempotency?) async throws -> Creation? {
        guard let idempotency else { return nil }
        return try await pool.read(FindIdempotentRequest(idempotency: idempotency)).first
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

    var parameters: [PostgresValue] {
        [.bytes(idempotency.operatorKey), .text(idempotency.key), .bytes(idempotency.digest)]
    }

    static func decode(_ row: PostgresRow) throws -> PushStore.Creation {
        let (pushID, answer, isSame) = try row.decode(UUID.self, [UInt8].self, Bool.self)
        return isSame ? .repeated(pushID: pushID, answer: answer) : .keyInUse
    }
}
