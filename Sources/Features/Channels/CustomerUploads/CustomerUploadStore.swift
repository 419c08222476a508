import Endpoints
import FoundationEssentials
import KakaoAPI
import Postgres
import Runtime
import Schemas

/// The uploads of users to customer files in PostgreSQL.
struct CustomerUploadStore: Sendable {
    /// The timeout of each statement of an upload, and of a pause in which PostgreSQL accepts no data.
    private static let statementTimeout = Duration.seconds(120)

    let pool: PostgresPool

    /// Stores an upload once all its users have been read.
    ///
    /// Holds one of the loop's connections for transactions while `body` runs.
    ///
    /// - Parameters:
    ///   - record: The record for the audit log.
    ///   - body: Writes at least one user, as ``CustomerRows``.
    /// - Throws: Errors of `body`, with nothing stored; ``PostgresError``.
    func create(
        _ upload: CustomerUpload,
        recording record: AuditRecord?,
        writing body: (PostgresCopyWriter) async throws -> Void
    ) async throws -> CustomerUpload {
        try await pool.withTransaction(statementTimeout: Self.statementTimeout) { transaction in
            _ = try await transaction.copy("COPY \(CustomerRows.columns) FROM STDIN (FORMAT binary)", writing: body)
            guard let stored = try await transaction.query(CreateCustomerUpload(upload: upload)).first else {
                throw PostgresError(.decoding, detail: "storing an upload returned no row")
            }
            try await transaction.record(record)
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

    /// A part may be sent twice: those after it wait, so that Kakao then has the same fields.
    func presumeUnfinished(in transaction: PostgresTransaction) async throws {}

    /// No claim is written to a file.
    func isStored(_ claim: ClaimFile.Claim) async throws -> Bool? { nil }
}

// MARK: Statements

/// Creates an upload whose users are stored, with its parts. Returns it.
struct CreateCustomerUpload: PostgresStatement {
    static let sql: SQL = """
        WITH parts AS (
            INSERT INTO customer_upload_parts (upload_id, number)
            SELECT upload_id, number
            FROM customer_upload_users
            WHERE upload_id = $1
        )
        INSERT INTO customer_uploads (
            id, channel_public_id, file_id, user_type, action, state, users, created_by, created_at
        )
        SELECT $1, $2, $3, $4, $5, 'sending', sum(user_count), $6, $7
        FROM customer_upload_users
        WHERE upload_id = $1
        HAVING count(*) > 0
        RETURNING \(CustomerUpload.columns)
        """

    let upload: CustomerUpload

    var parameters: [PostgresValue] {
        [
            .uuid(upload.id), .text(upload.channelPublicID), .int64(upload.fileID), .text(upload.type.rawValue),
            .text(upload.action.rawValue), .text(upload.createdBy), .timestamp(upload.createdAt),
        ]
    }

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
///
/// The uploads to a file are sent in their order, and so are the parts of each: a retry of an earlier one must not overtake a later one,
/// whose users may be the same.
struct ClaimCustomerPart: PostgresStatement {
    static let sql: SQL = """
        WITH held AS MATERIALIZED (\(SQL.lockedLease("$1"))),
        due AS MATERIALIZED (
            SELECT part.upload_id, part.number
            FROM customer_uploads AS upload
            CROSS JOIN LATERAL (
                SELECT number
                FROM customer_upload_parts
                WHERE upload_id = upload.id
                ORDER BY number
                LIMIT 1
            ) AS first
            JOIN customer_upload_parts AS part ON (part.upload_id, part.number) = (upload.id, first.number)
            WHERE upload.state = 'sending'
                AND part.due_at <= now()
                AND NOT EXISTS (
                    SELECT 1
                    FROM customer_uploads AS earlier
                    WHERE earlier.state = 'sending'
                        AND (earlier.channel_public_id, earlier.file_id) = (upload.channel_public_id, upload.file_id)
                        AND earlier.id < upload.id
                )
            ORDER BY part.due_at, part.upload_id
            LIMIT 1
            FOR UPDATE OF part SKIP LOCKED
        ),
        claimed AS (
            UPDATE customer_upload_parts AS part
            SET lease = $1,
                due_at = NULL,
                claims = part.claims + 1
            FROM due
            WHERE (part.upload_id, part.number) = (due.upload_id, due.number)
                AND EXISTS (SELECT 1 FROM held)
            RETURNING part.*
        )
        SELECT EXISTS (SELECT 1 FROM held), claimed.upload_id, claimed.number, claimed.claims, claimed.attempts, content.users,
            upload.channel_public_id, upload.file_id, upload.user_type, upload.action
        FROM (SELECT) AS one
        LEFT JOIN claimed ON true
        LEFT JOIN customer_upload_users AS content USING (upload_id, number)
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
            let type = try column.next(CustomerType?.self)
            let action = try column.next(CustomerUpload.Action?.self)
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

/// The upload of a part whose key begins with `$1`, locked.
private let lockedUpload: SQL = """
    SELECT id
    FROM customer_uploads
    WHERE id = $1
    FOR UPDATE
    """

/// Releases a part; after a failed attempt, stores the reason on its upload.
///
/// Locks the upload first, as every statement that changes parts and their upload.
struct ReleaseCustomerPart: PostgresStatement {
    static let sql: SQL = """
        WITH upload AS MATERIALIZED (\(lockedUpload)),
        released AS (
            UPDATE customer_upload_parts AS part
            SET lease = NULL,
                due_at = now() + make_interval(secs => COALESCE($4::float8, 0)),
                attempts = part.attempts + CASE WHEN $4::float8 IS NULL THEN 0 ELSE 1 END
            FROM upload
            WHERE part.upload_id = upload.id
                AND (part.upload_id, part.number, part.claims) = ($1, $2, $3)
                AND part.lease IS NOT NULL
            RETURNING part.upload_id
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
///
/// Locks the upload first, as every statement that changes parts and their upload.
struct EndCustomerPart: PostgresStatement {
    static let sql: SQL = """
        WITH upload AS MATERIALIZED (\(lockedUpload)),
        ended AS (
            DELETE FROM customer_upload_parts AS part
            USING upload, customer_upload_users AS content
            WHERE part.upload_id = upload.id
                AND (part.upload_id, part.number, part.claims) = ($1, $2, $3)
                AND part.lease IS NOT NULL
                AND (content.upload_id, content.number) = ($1, $2)
            RETURNING part.upload_id, content.user_count
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

/// Fails an upload after Kakao refused a part, and deletes its parts.
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
            OR \(SQL.otherLeasesHaveExpired)
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
struct EraseUserFromUploads: PostgresStatement {
    static let sql: SQL = """
        UPDATE customer_upload_users
        SET users = COALESCE(
                (
                    SELECT jsonb_agg(customer)
                    FROM jsonb_array_elements(users) AS customer
                    WHERE customer ->> 'id' <> $1::bigint::text
                ),
                '[]'
            ),
            user_ids = array_remove(user_ids, $1)
        WHERE user_ids @> ARRAY[$1::bigint]
        """

    let userID: Int64

    var parameters: [PostgresValue] { [.int64(userID)] }
}

/// Fails up to `limit` uploads that Kakao has not accepted within `days`, and deletes their users. Skips rows that another server is changing.
struct ExpireCustomerUploads: PostgresStatement {
    static let sql: SQL = """
        WITH expired AS MATERIALIZED (
            SELECT id
            FROM customer_uploads
            WHERE state = 'sending'
                AND created_at < now() - make_interval(days => $1::integer)
            ORDER BY id
            LIMIT $2
            FOR UPDATE SKIP LOCKED
        ),
        deleted AS (
            DELETE FROM customer_upload_parts AS part
            USING expired
            WHERE part.upload_id = expired.id
        )
        UPDATE customer_uploads AS upload
        SET state = 'failed',
            reason = format('Not accepted by Kakao within %s days.', $1::integer),
            finished_at = now()
        FROM expired
        WHERE upload.id = expired.id
        """

    let days: Int
    let limit: Int

    var parameters: [PostgresValue] { [.int32(Int32(clamping: days)), .int64(Int64(limit))] }
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
