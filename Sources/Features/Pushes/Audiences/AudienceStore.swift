import Endpoints
import FoundationEssentials
import Postgres

/// The audiences in PostgreSQL.
struct AudienceStore: Sendable {
    /// The timeout of each statement of an upload, and of a pause in which PostgreSQL accepts none of the data. On a
    /// slow disk, sorting ten million users takes a minute.
    private static let statementTimeout = Duration.seconds(600)

    let pool: PostgresPool

    /// Replaces the users of an audience, or creates it, in one step after the last user is stored.
    ///
    /// Holds one of the loop's connections for transactions while `body` runs.
    ///
    /// - Parameters:
    ///   - record: The record for the audit log.
    ///   - body: Writes at least one user, in the format of ``UserIDRows`` and in any order. Duplicates are allowed.
    /// - Returns: The stored audience, and whether it is new.
    /// - Throws: Errors of `body`, ``PostgresError``, `CancellationError`. The audience is then unchanged.
    func replace(
        _ name: AudienceName,
        recording record: AuditRecord?,
        writing body: (PostgresCopyWriter) async throws -> Void
    ) async throws -> (audience: Audience, isNew: Bool) {
        let partsID = UUID.v7()
        return try await pool.withTransaction(statementTimeout: Self.statementTimeout) { transaction in
            // A temporary table writes no WAL. A sort that needs more than this memory uses the disk.
            try await transaction.execute(
                script: """
                    SET LOCAL work_mem = '64MB';
                    CREATE TEMPORARY TABLE audience_upload (user_id bigint NOT NULL) ON COMMIT DROP
                    """
            )
            _ = try await transaction.copy("COPY audience_upload FROM STDIN (FORMAT binary)", writing: body)
            guard let users = try await transaction.query(InsertAudienceParts(partsID: partsID)).first,
                let (updatedAt, isNew) = try await transaction.query(
                    UpsertAudience(name: name, partsID: partsID, users: users)
                ).first
            else { throw PostgresError(.decoding, detail: "storing an audience returned no row") }
            try await transaction.record(record)
            return (Audience(name: name, users: users, updatedAt: updatedAt), isNew)
        }
    }

    /// Returns an audience; `nil` if there is none with this name.
    func audience(_ name: AudienceName) async throws -> Audience? {
        try await pool.read(FindAudience(name: name)).first
    }

    /// Returns up to `limit` audiences by name.
    ///
    /// - Parameter name: The last name of the previous page; `nil` for the first page.
    func list(after name: AudienceName?, limit: Int) async throws -> [Audience] {
        try await pool.read(ListAudiences(after: name, limit: limit), mayBeBehind: true)
    }

    /// Deletes an audience. Pushes that were created for it keep its users. Returns whether the audience existed.
    ///
    /// - Parameter record: The record for the audit log.
    func delete(_ name: AudienceName, recording record: AuditRecord?) async throws -> Bool {
        try await pool.write(DeleteAudience(name: name), recording: record) > 0
    }
}

// MARK: Statements

/// Inserts the uploaded users as parts of a thousand users each, without duplicates. Returns the number of users.
///
/// `DISTINCT ON` sorts, and the numbering needs that order; `DISTINCT` would probably hash.
struct InsertAudienceParts: PostgresStatement {
    static let sql: SQL = """
        WITH parts AS (
            INSERT INTO audience_parts (parts_id, number, user_ids)
            SELECT $1, number, array_agg(user_id ORDER BY user_id)
            FROM (
                SELECT user_id, ((row_number() OVER (ORDER BY user_id) - 1) / 1000 + 1)::integer AS number
                FROM (
                    SELECT DISTINCT ON (user_id) user_id
                    FROM audience_upload
                    ORDER BY user_id
                ) AS users
            ) AS numbered
            GROUP BY number
            RETURNING cardinality(user_ids) AS users
        )
        SELECT sum(users)
        FROM parts
        """

    let partsID: UUID

    var parameters: [PostgresValue] { [.uuid(partsID)] }
    static func decode(_ row: PostgresRow) throws -> Int64 { try row.decode(Int64.self) }
}

/// Inserts an audience or replaces its parts. Returns the time of the update, and whether the audience is new.
///
/// A new row has `xmax = 0`. If two uploads are concurrent, the one that ends later has the later time.
struct UpsertAudience: PostgresStatement {
    static let sql: SQL = """
        INSERT INTO audiences (name, parts_id, users, created_at, updated_at)
        SELECT $1, $2, $3, now.now, now.now
        FROM clock_timestamp() AS now (now)
        ON CONFLICT (name) DO UPDATE
        SET parts_id = excluded.parts_id,
            users = excluded.users,
            updated_at = clock_timestamp()
        RETURNING updated_at, xmax = 0
        """

    let name: AudienceName
    let partsID: UUID
    let users: Int64

    var parameters: [PostgresValue] { [.text(name.text), .uuid(partsID), .int64(users)] }
    static func decode(_ row: PostgresRow) throws -> (updatedAt: Date, isNew: Bool) {
        try row.decode(Date.self, Bool.self)
    }
}

/// Finds an audience by its name.
struct FindAudience: PostgresStatement {
    static let sql: SQL = """
        SELECT name, users, updated_at
        FROM audiences
        WHERE name = $1
        """

    let name: AudienceName

    var parameters: [PostgresValue] { [.text(name.text)] }
    static func decode(_ row: PostgresRow) throws -> Audience { try Audience(row) }
}

/// Lists audiences by name.
struct ListAudiences: PostgresStatement {
    static let sql: SQL = """
        SELECT name, users, updated_at
        FROM audiences
        WHERE $1::text IS NULL
            OR name > $1
        ORDER BY name
        LIMIT $2
        """

    /// The last name of the previous page; `nil` for the first page.
    let after: AudienceName?
    let limit: Int

    var parameters: [PostgresValue] { [.text(after?.text), .int64(Int64(limit))] }
    static func decode(_ row: PostgresRow) throws -> Audience { try Audience(row) }
}

/// Deletes an audience. Its parts stay for the pushes that need them.
struct DeleteAudience: PostgresStatement {
    static let sql: SQL = """
        DELETE FROM audiences
        WHERE name = $1
        """

    let name: AudienceName

    var parameters: [PostgresValue] { [.text(name.text)] }
}

/// Deletes up to `limit` parts, of up to a thousand users each, that belong to no audience and to no unfinished push.
/// They are fewer if no more are left, or if another server is deleting the rest.
///
/// The parts of an upload in flight are invisible until an audience has them. The statement that creates a push reads
/// the audience `FOR SHARE`, so that its parts cannot be deleted meanwhile (`0002_pushes.sql`).
///
/// Skips from one `parts_id` to the next by the key, because each has thousands of rows.
struct DeleteUnusedAudienceParts: PostgresStatement {
    static let sql: SQL = """
        WITH RECURSIVE stored AS (
            SELECT min.parts_id
            FROM (SELECT parts_id FROM audience_parts ORDER BY parts_id LIMIT 1) AS min
            UNION ALL
            SELECT next.parts_id
            FROM stored
            CROSS JOIN LATERAL (
                SELECT parts_id
                FROM audience_parts
                WHERE parts_id > stored.parts_id
                ORDER BY parts_id
                LIMIT 1
            ) AS next
        ),
        unused AS (
            SELECT part.parts_id, part.number
            FROM stored
            JOIN audience_parts AS part USING (parts_id)
            WHERE NOT EXISTS (SELECT FROM audiences WHERE audiences.parts_id = stored.parts_id)
                AND NOT EXISTS (
                    SELECT
                    FROM pushes
                    WHERE pushes.audience_parts_id = stored.parts_id
                        AND pushes.state IN ('proposed', 'scheduled', 'preparing', 'paused', 'halted', 'sending')
                )
                AND NOT EXISTS (
                    SELECT
                    FROM pushes
                    WHERE pushes.excluded_parts_id = stored.parts_id
                        AND pushes.state IN ('proposed', 'scheduled', 'preparing', 'paused', 'halted', 'sending')
                )
            LIMIT $1
            FOR UPDATE OF part SKIP LOCKED
        )
        DELETE FROM audience_parts AS part
        USING unused
        WHERE part.parts_id = unused.parts_id
            AND part.number = unused.number
        """

    let limit: Int

    var parameters: [PostgresValue] { [.int64(Int64(limit))] }
}
