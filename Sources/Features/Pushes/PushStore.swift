import Endpoints
import FoundationEssentials
import JSON
import KakaoAPI
import Locking
import Postgres

/// Creates, controls and shows pushes in PostgreSQL.
struct PushStore: Sendable {
    let pool: PostgresPool
    private let settings: Locked<PushSettings>

    init(pool: PostgresPool, _ settings: Locked<PushSettings> = Locked(PushSettings())) {
        self.pool = pool
        self.settings = settings
    }

    /// The hours for advertising at present, as the parameter of statements.
    var hours: PostgresValue { settings.withLock { $0.hours } }

    enum Creation: Sendable {
        case created
        /// A repetition of an earlier request, with its response.
        case repeated(pushID: UUID, answer: [UInt8])
        /// Another request has used the key.
        case keyInUse
        /// The push refers to an audience or a push that does not exist, or to a push whose users it cannot leave out.
        case invalid(NamedObject)
    }

    /// An object that a push refers to.
    enum NamedObject: String, Sendable {
        case audience
        case excludedAudience
        case excludedPush
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
        return .invalid(try await invalidObject(of: push) ?? .audience)
    }

    /// Returns the outcome of an earlier request with an idempotency key; `nil` if there is none.
    func earlierCreation(_ idempotency: Idempotency?) async throws -> Creation? {
        guard let idempotency else { return nil }
        return try await pool.read(FindIdempotentRequest(idempotency: idempotency)).first
    }

    /// Returns when a message was last sent to a tester; `nil` if it was not.
    func lastTest(of message: PushMessage) async throws -> Date? {
        try await pool.read(FindLastTest(message: message)).first ?? nil
    }

    /// Returns the object that a push refers to and that does not exist, or that it cannot leave out; `nil` if all are valid.
    func invalidObject(of push: NewPush) async throws -> NamedObject? {
        try await pool.read(FindInvalidObject(push: push)).first ?? nil
    }
}

extension NewPush {
    /// Returns the push as it is shown before anything is sent.
    func summary(createdAt: Date, lastTestedAt: Date?) -> PushSummary {
        PushSummary(
            id: id,
            name: name,
            createdBy: createdBy?.name,
            createdByKey: createdBy?.id,
            kind: kind,
            state: initialState,
            reason: nil,
            audience: audience.json.bytes(),
            toTesters: toTesters,
            countedUsers: counted?.number,
            awaitsApproval: needsApproval,
            approvedBy: nil,
            approvedAt: nil,
            stoppedBy: nil,
            lastTestedAt: lastTestedAt,
            exclusion: exclusion?.json.bytes(),
            waitsFor: [],
            waitsUntil: nil,
            delivery: delivery,
            usersPerSecond: usersPerSecond,
            sendAt: sendAt,
            expiresAt: expiresAt,
            createdAt: createdAt,
            startedAt: nil,
            finishedAt: nil,
            users: PushCounts(),
            batches: PushCounts()
        )
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

/// Finds the object that a push refers to and that does not exist, or that it cannot leave out.
struct FindInvalidObject: PostgresStatement {
    static let sql: SQL = """
        SELECT CASE
                WHEN $1::text IS NOT NULL AND NOT EXISTS (SELECT 1 FROM audiences WHERE name = $1) THEN 'audience'
                WHEN $2::text IS NOT NULL AND NOT EXISTS (SELECT 1 FROM audiences WHERE name = $2) THEN 'excludedAudience'
                WHEN NOT pushes_are_excludable($3, COALESCE($4, now())) THEN 'excludedPush'
            END
        """

    let push: NewPush

    var parameters: [PostgresValue] {
        [
            .text(push.audience.storedName?.text), .text(push.exclusion?.audience?.text),
            .uuids(push.exclusion?.pushes ?? []), .timestamp(push.sendAt),
        ]
    }

    static func decode(_ row: PostgresRow) throws -> PushStore.NamedObject? {
        try row.decode(String?.self).flatMap(PushStore.NamedObject.init(rawValue:))
    }
}
