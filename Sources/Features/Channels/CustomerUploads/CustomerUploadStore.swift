import Endpoints
import FoundationEssentials
import KakaoAPI
import Postgres
import Runtime
import Schemas

/// The uploads of users to customer files in PostgreSQL.
struct CustomerUploadStore: Sendable {
    /// The timeout of each statement of an upload, and of a pause in which PostgreSQL accepts none of the data.
    private static let statementTimeout = Duration.seconds(120)

    let pool: PostgresPool

    /// Stores an upload once all its users have been read.
    ///
    /// Holds one of the loop's connections for transactions while `body` runs.
    ///
    /// - Parameters:
    ///   - record: The record for the audit log.
    ///   - body: Passes all users on, in parts.
    /// - Throws: Errors of `body`, with nothing stored; ``PostgresError``.
    func create(
        _ upload: CustomerUpload,
        recording record: AuditRecord?,
        readingUsers body: (_ store: ([Customer]) async throws -> Void) async throws -> Void
    ) async throws -> CustomerUpload {
        try await pool.withTransaction(statementTimeout: Self.statementTimeout) { transaction in
            _ = try await transaction.query(CreateCustomerUpload(upload: upload)) as Int
            var number: Int32 = 0
            var users: Int64 = 0
            try await body { part in
                number += 1
                users += Int64(part.count)
                _ =
                    try await transaction.query(
                        AddCustomerPart(uploadID: upload.id, number: number, users: part)
                    ) as Int
            }
            try await transaction.record(record)
            guard let stored = try await transaction.query(CountCustomers(id: upload.id, users: users)).first else {
                throw PostgresError(.decoding, detail: "storing an upload returned no row")
            }
            return stored
        }
    }

    /// Ends an upload. Returns whether it was being sent.
    func cancel(_ id: UUID, recording record: AuditRecord?) async throws -> Bool {
        try await pool.write(CancelCustomerUpload(id: id), recording: record) > 0
    }

    /// Stores what became of a part. Has no effect if it was claimed again since, or reclaimed, or if its upload has ended.
    func record(_ result: QueueResult<CustomerPart, CustomerPartResult>) async throws {
        let part = result.claim
        switch result.outcome {
        case .notSent: try await pool.write(ReleaseCustomerPart(part: part, delay: nil, reason: nil))
        case .retried(let delay, let reason):
            try await pool.write(ReleaseCustomerPart(part: part, delay: delay, reason: reason))
        case .accepted(let users): try await pool.write(EndCustomerPart(part: part, accepted: users))
        case .refused(let reason): try await pool.write(FailCustomerUpload(part: part, reason: reason))
        }
    }
}

// The parts as the work of a queue.
extension CustomerUploadStore: WorkStore {
    var queue: String { "customer_files" }

    func renew(_ lease: UUID, for duration: Duration) async throws -> Bool? {
        try await pool.write(RenewCustomerLease(id: lease, duration: duration)).first
    }

    func isWorkOpen(under lease: UUID, in transaction: PostgresTransaction) async throws -> Bool {
        try await transaction.query(FindOpenCustomerPart(lease: lease)).first ?? false
    }

    func orphanedLeases() async throws -> [UUID] { try await pool.read(FindOrphanedCustomerLeases()) }

    func reclaim(_ leases: [UUID], in transaction: PostgresTransaction) async throws -> ReclaimedWork {
        ReclaimedWork(items: try await transaction.query(ReclaimCustomerParts(leases: leases)))
    }

    /// A part may be sent twice: Kakao then has the same fields.
    func presumeUnfinished(in transaction: PostgresTransaction) async throws {}

    /// No claim is written to a file.
    func isStored(_ claim: ClaimFile.Claim) async throws -> Bool? { nil }
}

// MARK: Statements

/// Creates an upload without users.
struct CreateCustomerUpload: PostgresStatement {
    static let sql: SQL = """
        INSERT INTO customer_uploads (
            id, channel_public_id, file_id, user_type, action, state, users, created_by, created_at
        )
        VALUES ($1, $2, $3, $4, $5, 'sending', 1, $6, $7)
        """

    let upload: CustomerUpload

    var parameters: [PostgresValue] {
        [
            .uuid(upload.id), .text(upload.channelPublicID), .int64(upload.fileID), .text(upload.type.rawValue),
            .text(upload.action.rawValue), .text(upload.createdBy), .timestamp(upload.createdAt),
        ]
    }
}

/// Adds a part of an upload.
struct AddCustomerPart: PostgresStatement {
    static let sql: SQL = """
        INSERT INTO customer_upload_parts (upload_id, number, users, user_count)
        VALUES ($1, $2, $3, $4)
        """

    let uploadID: UUID
    let number: Int32
    let users: [Customer]

    var parameters: [PostgresValue] {
        [.uuid(uploadID), .int32(number), .jsonb(Customer.json(users)), .int32(Int32(clamping: users.count))]
    }
}

/// Stores the number of users of a new upload. Returns it.
struct CountCustomers: PostgresStatement {
    static let sql: SQL = """
        UPDATE customer_uploads
        SET users = $2
        WHERE id = $1
        RETURNING \(CustomerUpload.columns)
        """

    let id: UUID
    let users: Int64

    var parameters: [PostgresValue] { [.uuid(id), .int64(users)] }
    static func decode(_ row: PostgresRow) throws -> CustomerUpload { try row.decode { try CustomerUpload(&$0) } }
}

/// Lists uploads, the latest first.
struct ListCustomerUploads: PostgresStatement {
    static let sql: SQL = """
        SELECT \(CustomerUpload.columns)
        FROM customer_uploads
        WHERE id < COALESCE($1, 'ffffffff-ffff-ffff-ffff-ffffffffffff'::uuid)
        ORDER BY id DESC
        LIMIT $2
        """

    let before: UUID?
    let limit: Int64

    var parameters: [PostgresValue] { [.uuid(before), .int64(limit)] }
    static func decode(_ row: PostgresRow) throws -> CustomerUpload { try row.decode { try CustomerUpload(&$0) } }
}

/// Reads an upload.
struct ReadCustomerUpload: PostgresStatement {
    static let sql: SQL = """
        SELECT \(CustomerUpload.columns)
        FROM customer_uploads
        WHERE id = $1
        """

    let id: UUID

    var parameters: [PostgresValue] { [.uuid(id)] }
    static func decode(_ row: PostgresRow) throws -> CustomerUpload { try row.decode { try CustomerUpload(&$0) } }
}

/// Ends an upload, with the parts that Kakao has not accepted.
struct CancelCustomerUpload: PostgresStatement {
    static let sql: SQL = """
        WITH removed AS (
            DELETE FROM customer_upload_parts
            WHERE upload_id = $1
        )
        UPDATE customer_uploads
        SET state = 'canceled',
            reason = NULL,
            finished_at = now()
        WHERE id = $1
            AND state = 'sending'
        """

    let id: UUID

    var parameters: [PostgresValue] { [.uuid(id)] }
}

/// Claims the next part that is due, under a valid lease. Returns whether the lease is valid, and the part.
struct ClaimCustomerPart: PostgresStatement {
    static let sql: SQL = """
        WITH held AS MATERIALIZED (\(SQL.lockedLease("$1"))),
        claimed AS (
            UPDATE customer_upload_parts
            SET lease = $1,
                due_at = NULL,
                claims = claims + 1
            WHERE (upload_id, number) IN (
                    SELECT upload_id, number
                    FROM customer_upload_parts
                    WHERE due_at <= now()
                    ORDER BY due_at, upload_id, number
                    LIMIT 1
                    FOR UPDATE SKIP LOCKED
                )
                AND EXISTS (SELECT 1 FROM held)
            RETURNING *
        )
        SELECT EXISTS (SELECT 1 FROM held), claimed.upload_id, claimed.number, claimed.claims, claimed.attempts, claimed.users,
            upload.channel_public_id, upload.file_id, upload.user_type, upload.action
        FROM (SELECT) AS one
        LEFT JOIN claimed ON true
        LEFT JOIN customer_uploads AS upload ON upload.id = claimed.upload_id
        """

    let lease: UUID

    var parameters: [PostgresValue] { [.uuid(lease)] }

    static func decode(_ row: PostgresRow) throws -> ClaimedCustomerPart {
        try row.decode { column in
            let isLeaseValid = try column.next(Bool.self)
            let id = try column.next(UUID?.self)
            let (number, claims, attempts) = (
                try column.next(Int32?.self), try column.next(Int32?.self), try column.next(Int32?.self)
            )
            let users = try column.next([UInt8]?.self)
            let channel = try column.next(String?.self)
            let fileID = try column.next(Int64?.self)
            let type = try column.next(String?.self).flatMap(CustomerType.init)
            let action = try column.next(String?.self).flatMap(CustomerUpload.Action.init)
            guard let id, let number, let claims, let attempts, let users, let channel, let fileID, let type, let action
            else { return ClaimedCustomerPart(claims: [], isLeaseValid: isLeaseValid) }
            let part = CustomerPart(
                uploadID: id,
                number: number,
                claims: claims,
                attempts: attempts,
                call: CustomerPart.Call(
                    channelPublicID: channel,
                    fileID: fileID,
                    type: type,
                    action: action,
                    users: users
                )
            )
            return ClaimedCustomerPart(claims: [part], isLeaseValid: isLeaseValid)
        }
    }
}

/// Lists the parts that are claimed under a lease.
struct ListOpenCustomerParts: PostgresStatement {
    static let sql: SQL = """
        SELECT upload_id, number, claims, attempts
        FROM customer_upload_parts
        WHERE lease = $1
        """

    let lease: UUID

    var parameters: [PostgresValue] { [.uuid(lease)] }

    static func decode(_ row: PostgresRow) throws -> CustomerPart {
        try row.decode { column in
            try CustomerPart(
                uploadID: column.next(),
                number: column.next(),
                claims: column.next(),
                attempts: column.next(),
                call: nil
            )
        }
    }
}

/// Makes a claimed part due again: at once, or after a failed attempt, whose reason its upload then shows.
struct ReleaseCustomerPart: PostgresStatement {
    static let sql: SQL = """
        WITH released AS (
            UPDATE customer_upload_parts
            SET lease = NULL,
                due_at = now() + make_interval(secs => COALESCE($4::float8, 0)),
                attempts = attempts + CASE WHEN $4::float8 IS NULL THEN 0 ELSE 1 END
            WHERE (upload_id, number, claims) = ($1, $2, $3)
                AND lease IS NOT NULL
            RETURNING upload_id
        )
        UPDATE customer_uploads
        SET reason = $5
        FROM released
        WHERE id = released.upload_id
            AND $4::float8 IS NOT NULL
        """

    let part: CustomerPart
    /// The time until the next attempt; `nil` if there was none.
    let delay: Duration?
    let reason: String?

    var parameters: [PostgresValue] { part.key + [.float64(delay?.inSeconds), .text(reason)] }
}

/// Deletes a part that Kakao has accepted, and counts its users. Its upload is done with its last part.
struct EndCustomerPart: PostgresStatement {
    static let sql: SQL = """
        WITH ended AS (
            DELETE FROM customer_upload_parts
            WHERE (upload_id, number, claims) = ($1, $2, $3)
                AND lease IS NOT NULL
            RETURNING upload_id, user_count
        )
        UPDATE customer_uploads
        SET users_sent = users_sent + ended.user_count,
            users_accepted = users_accepted + LEAST($4, ended.user_count),
            state = CASE WHEN users_sent + ended.user_count >= users THEN 'done' ELSE state END,
            finished_at = CASE WHEN users_sent + ended.user_count >= users THEN now() END,
            reason = NULL
        FROM ended
        WHERE id = ended.upload_id
            AND state = 'sending'
        """

    let part: CustomerPart
    let accepted: Int64

    var parameters: [PostgresValue] { part.key + [.int64(accepted)] }
}

/// Ends an upload one of whose parts Kakao has refused, and deletes its parts.
struct FailCustomerUpload: PostgresStatement {
    static let sql: SQL = """
        WITH refused AS (
            SELECT upload_id
            FROM customer_upload_parts
            WHERE (upload_id, number, claims) = ($1, $2, $3)
                AND lease IS NOT NULL
        ),
        ended AS (
            UPDATE customer_uploads
            SET state = 'failed',
                reason = $4,
                finished_at = now()
            FROM refused
            WHERE id = refused.upload_id
                AND state = 'sending'
            RETURNING id
        )
        DELETE FROM customer_upload_parts
        USING ended
        WHERE upload_id = ended.id
        """

    let part: CustomerPart
    let reason: String

    var parameters: [PostgresValue] { part.key + [.text(reason)] }
}

/// Renews a lease, and returns whether there is anything to do, now or within seconds: parts to send, or work of other servers, which may
/// have stopped. Returns no row if the lease was deleted.
struct RenewCustomerLease: PostgresStatement {
    static let sql: SQL = """
        UPDATE work_leases
        SET ends_at = now() + make_interval(secs => $2)
        WHERE id = $1
        RETURNING EXISTS (SELECT 1 FROM customer_upload_parts WHERE due_at <= now() + interval '10 s')
            OR EXISTS (SELECT 1 FROM customer_upload_parts WHERE lease IS NOT NULL)
            OR EXISTS (SELECT 1 FROM work_leases WHERE queue = 'customer_files' AND ends_at < now())
        """

    let id: UUID
    let duration: Duration

    var parameters: [PostgresValue] { [.uuid(id), .float64(duration.inSeconds)] }
    static func decode(_ row: PostgresRow) throws -> Bool { try row.decode(Bool.self) }
}

/// Returns whether there are parts of uploads.
struct FindCustomerParts: PostgresStatement {
    static let sql: SQL = """
        SELECT EXISTS (SELECT 1 FROM customer_upload_parts)
        """

    static func decode(_ row: PostgresRow) throws -> Bool { try row.decode(Bool.self) }
}

/// Returns whether a part is claimed under a lease.
struct FindOpenCustomerPart: PostgresStatement {
    static let sql: SQL = """
        SELECT EXISTS (SELECT 1 FROM customer_upload_parts WHERE lease = $1)
        """

    let lease: UUID

    var parameters: [PostgresValue] { [.uuid(lease)] }
    static func decode(_ row: PostgresRow) throws -> Bool { try row.decode(Bool.self) }
}

/// Finds the leases of claimed parts whose row in `work_leases` is missing.
struct FindOrphanedCustomerLeases: PostgresStatement {
    static let sql: SQL = """
        SELECT DISTINCT lease
        FROM customer_upload_parts
        WHERE lease IS NOT NULL
            AND NOT EXISTS (SELECT 1 FROM work_leases WHERE id = lease)
        """

    static func decode(_ row: PostgresRow) throws -> UUID { try row.decode(UUID.self) }
}

/// Ends the claims of deleted leases.
struct ReclaimCustomerParts: PostgresStatement {
    static let sql: SQL = """
        UPDATE customer_upload_parts
        SET lease = NULL,
            due_at = now()
        WHERE lease = ANY ($1)
        """

    let leases: [UUID]

    var parameters: [PostgresValue] { [.uuids(leases)] }
}

/// Deletes a user of the app from the parts that Kakao has not accepted.
struct DeleteCustomer: PostgresStatement {
    static let sql: SQL = """
        UPDATE customer_upload_parts AS part
        SET users = COALESCE(
                (
                    SELECT jsonb_agg(customer)
                    FROM jsonb_array_elements(part.users) AS customer
                    WHERE customer ->> 'id' <> $1::bigint::text
                ),
                '[]'
            )
        FROM customer_uploads AS upload
        WHERE upload.id = part.upload_id
            AND upload.user_type = 'app'
            AND part.users @> jsonb_build_array(jsonb_build_object('id', $1::bigint::text))
        """

    let userID: Int64

    var parameters: [PostgresValue] { [.int64(userID)] }
}

/// Deletes up to `limit` uploads that ended more than `retentionDays` ago. Skips rows that another server is deleting.
struct DeleteOldCustomerUploads: PostgresStatement {
    static let sql: SQL = """
        DELETE FROM customer_uploads
        WHERE id IN (
            SELECT id
            FROM customer_uploads
            WHERE finished_at < now() - make_interval(days => $1)
            ORDER BY finished_at
            LIMIT $2
            FOR UPDATE SKIP LOCKED
        )
        """

    let retentionDays: Int
    let limit: Int

    var parameters: [PostgresValue] { [.int32(Int32(clamping: retentionDays)), .int64(Int64(limit))] }
}
