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
            // A temporary table costs no log; what is sorted beyond this memory goes to disk.
            try await transaction.execute(
                script: """
                    SET LOCAL work_mem = '64MB';
                    CREATE TEMPORARY TABLE audience_upload (user_id bigint NOT NULL) ON COMMIT DROP
                    """
            )
            _ = try await transaction.copy("COPY audience_upload FROM STDIN (FORMAT binary)", writing: body)
            let parts = try await transaction.query(Self.insertParts, [.uuid(partsID)])
            guard let users = try parts.first?.decode(Int64.self),
                let row = try await transaction.query(
                    Self.swap,
                    [.text(name.text), .uuid(partsID), .int64(users)]
                ).first
            else { throw PostgresError(.decoding, detail: "an audience was stored without an answer") }
            let (updatedAt, isNew) = try row.decode(Date.self, Bool.self)
            return (Audience(name: name, users: users, updatedAt: updatedAt), isNew)
        }
    }

    /// DISTINCT ON sorts, and what follows needs that order; DISTINCT would rather hash.
    private static let insertParts = """
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

    /// A row that was not there before has no `xmax`. Of two uploads the one that ends later has the later time, whichever began first.
    private static let swap = """
        INSERT INTO audiences (name, parts_id, users, created_at, updated_at)
        SELECT $1, $2, $3, now.now, now.now
        FROM clock_timestamp() AS now (now)
        ON CONFLICT (name) DO UPDATE
        SET parts_id = excluded.parts_id,
            users = excluded.users,
            updated_at = clock_timestamp()
        RETURNING updated_at, xmax = 0
        """

    /// An audience, or `nil`.
    func audience(_ name: AudienceName) async throws -> Audience? {
        let rows = try await pool.read(
            """
            SELECT name, users, updated_at
            FROM audiences
            WHERE name = $1
            """,
            [.text(name.text)]
        )
        return try rows.first.map(Self.audience)
    }

    /// The audiences by name, at most `limit` of them.
    ///
    /// - Parameter name: Only those after this one.
    func list(after name: AudienceName?, limit: Int) async throws -> [Audience] {
        let rows = try await pool.read(
            """
            SELECT name, users, updated_at
            FROM audiences
            WHERE $1::text IS NULL
                OR name > $1
            ORDER BY name
            LIMIT $2
            """,
            [.text(name?.text), .int64(Int64(limit))]
        )
        return try rows.map(Self.audience)
    }

    private static func audience(_ row: PostgresRow) throws -> Audience {
        let (text, users, updatedAt) = try row.decode(String.self, Int64.self, Date.self)
        guard let name = AudienceName(text) else { throw PostgresError(.decoding, detail: "no name of an audience") }
        return Audience(name: name, users: users, updatedAt: updatedAt)
    }

    /// Deletes an audience; pushes that were made for it keep its users. Returns whether there was one.
    func delete(_ name: AudienceName) async throws -> Bool {
        let rows = try await pool.write(
            """
            DELETE FROM audiences
            WHERE name = $1
            """,
            [.text(name.text)]
        )
        return rows.affectedRows > 0
    }

    /// Deletes parts that no audience has any more and no unfinished push needs. Returns how many; fewer than `limit` when there are no
    /// more, or when another server deletes the rest.
    ///
    /// The parts of an upload that is under way are not seen before an audience has them. A push sees to it that its parts are not gone
    /// before it is stored by reading the audience `FOR SHARE` (`0003_audiences.sql`).
    ///
    /// - Parameter limit: Parts, of a thousand users each, to delete at most.
    func removeUnusedParts(limit: Int) async throws -> Int {
        let rows = try await pool.write(Self.deleteUnusedParts, [.int64(Int64(limit))])
        return rows.affectedRows
    }

    /// Goes from one `parts_id` to the next by the key, for each has thousands of rows.
    private static let deleteUnusedParts = """
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
}
