internal import FoundationEssentials
internal import Postgres

/// The audiences in PostgreSQL.
struct AudienceStore: Sendable {
    /// How long one statement of an upload may take, and how long PostgreSQL may take none of its data: to sort ten million users takes
    /// a slow disk a minute.
    private static let statementTimeout = Duration.seconds(600)

    private let pool: PostgresPool

    init(pool: PostgresPool) {
        self.pool = pool
    }

    /// Replaces the users of an audience, or makes it: in one step, when the last of them is stored.
    ///
    /// Takes one of the loop's connections for transactions for as long as `body` takes.
    ///
    /// - Parameter body: Writes the users as ``UserIDRows`` has them, in any order, some perhaps more than once; one at least.
    /// - Returns: The audience as it is now, and whether there was none of that name.
    /// - Throws: What `body` throws, ``PostgresError``, `CancellationError`: the audience is then as it was.
    func replace(
        _ name: AudienceName,
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
            else { throw PostgresError(.decoding, detail: "an audience was stored without an answer") }
            return (Audience(name: name, users: users, updatedAt: updatedAt), isNew)
        }
    }

    /// An audience, or `nil`.
    func audience(_ name: AudienceName) async throws -> Audience? {
        try await pool.read(FindAudience(name: name)).first
    }

    /// The audiences by name, at most `limit` of them.
    ///
    /// - Parameter name: Only those after this one.
    func list(after name: AudienceName?, limit: Int) async throws -> [Audience] {
        try await pool.read(ListAudiences(after: name, limit: limit))
    }

    /// Deletes an audience; pushes that were made for it keep its users. Returns whether there was one.
    func delete(_ name: AudienceName) async throws -> Bool {
        try await pool.write(DeleteAudience(name: name)) > 0
    }

    /// Deletes parts that belong to no audience and to no unfinished push. Returns how many: fewer than `limit` if there
    /// are no more, or if another server deletes the rest.
    ///
    /// The parts of an upload in flight are invisible until an audience has them. The statement that creates a push
    /// reads the audience `FOR SHARE`, so that its parts cannot be deleted meanwhile (`0003_audiences.sql`).
    ///
    /// - Parameter limit: The most parts to delete, of a thousand users each.
    func removeUnusedParts(limit: Int) async throws -> Int {
        try await pool.write(DeleteUnusedAudienceParts(limit: limit))
    }
}

extension Audience {
    /// Decodes the columns `name`, `users` and `updated_at`.
    fileprivate init(_ row: PostgresRow) throws {
        let (text, users, updatedAt) = try row.decode(String.self, Int64.self, Date.self)
        guard let name = AudienceName(text) else { throw PostgresError(.decoding, detail: "no name of an audience") }
        self.init(name: name, users: users, updatedAt: updatedAt)
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
/// A new row has `xmax = 0`. Of two concurrent uploads, the one that ends later has the later time, whichever began
/// first.
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

/// Deletes parts that belong to no audience and to no unfinished push.
///
/// Finds each `parts_id` by the key, from one to the next, because each has thousands of rows.
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
                        AND pushes.state IN ('scheduled', 'preparing', 'paused', 'halted', 'sending')
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
