import FoundationEssentials
import JSON
import Postgres

/// The shares in PostgreSQL.
final class ShareStore: Sendable {
    let pool: PostgresPool
    private let landings: StatementCoalescer<InsertLandings>
    private let conversions: StatementCoalescer<InsertConversions>

    /// - Parameter statisticsArgs: The arguments by which landings and conversions count.
    init(pool: PostgresPool, statisticsArgs: [String]) {
        self.pool = pool
        // A visit may lock the row of an earlier one.
        landings = StatementCoalescer(pool: pool) { InsertLandings(landings: $0, statisticsArgs: statisticsArgs) }
        conversions = StatementCoalescer(pool: pool, concurrency: 2) {
            InsertConversions(conversions: $0, statisticsArgs: statisticsArgs)
        }
    }

    /// Returns up to `limit` shares, the latest first.
    func list(campaign: String?, before: ShareID?, limit: Int) async throws -> [CountedShare] {
        guard let campaign else {
            return try await pool.read(ListShares(before: before, limit: limit), mayBeBehind: true)
        }
        let list = ListSharesOfCampaign(campaign: campaign, before: before, limit: limit)
        return try await pool.read(list, mayBeBehind: true)
    }

    /// Counts a visit, unless the visitor was counted within a minute.
    ///
    /// - Throws: ``PostgresError``: ``PostgresError/Code/timedOut`` after `limit`.
    func count(_ landing: Landing, within limit: Duration) async throws {
        try await landings.submit(landing, within: limit)
    }

    /// Counts a conversion, once for each share, event and user. Returns when it is committed.
    func count(_ conversion: Conversion) async throws {
        try await conversions.submit(conversion)
    }
}

/// A visit of a share's landing address.
struct Landing: Sendable {
    let shareID: ShareID
    /// The code of the visitor: ``ShareSigner/visitor(address:userAgent:)``.
    let visitor: [UInt8]
}

/// An event that a share led a user to, such as a purchase.
struct Conversion: Sendable {
    let shareID: ShareID
    let event: String
    let userID: Int64
}

// MARK: Statements

/// Stores a share.
struct InsertShare: PostgresStatement {
    static let sql: SQL = """
        INSERT INTO shares (id, campaign, template_id, args, links, expires_at)
        SELECT $1, $2, $3, $4, $5::text[], $6
        """

    let share: Share

    var parameters: [PostgresValue] {
        [
            .uuid(share.id.uuid), .text(share.campaign), .int64(share.templateID),
            .jsonb(JSONValue.object(JSONObject(share.args)).bytes()), .texts(share.links),
            .timestamp(share.expiresAt),
        ]
    }
}

/// Finds the links of a share.
struct FindShareLinks: PostgresStatement {
    static let sql: SQL = """
        SELECT links
        FROM shares
        WHERE id = $1
        """

    let id: ShareID

    var parameters: [PostgresValue] { [.uuid(id.uuid)] }
    static func decode(_ row: PostgresRow) throws -> [String] { try row.decode([String].self) }
}

/// Finds a share with its counts.
struct FindShare: PostgresStatement {
    static let sql: SQL = """
        SELECT \(CountedShare.columns)
        FROM shares
        LEFT JOIN share_totals(ARRAY[$1]) AS total ON total.share_id = id
        WHERE id = $1
        """

    let id: ShareID

    var parameters: [PostgresValue] { [.uuid(id.uuid)] }
    static func decode(_ row: PostgresRow) throws -> CountedShare { try row.decode { try CountedShare(&$0) } }
}

/// Lists the shares with their counts, the latest first.
struct ListShares: PostgresStatement {
    static let sql: SQL = """
        WITH page AS (
            SELECT *
            FROM shares
            WHERE $1::uuid IS NULL OR id < $1
            ORDER BY id DESC
            LIMIT $2
        )
        \(CountedShare.ofPage)
        """

    let before: ShareID?
    let limit: Int

    var parameters: [PostgresValue] { [.uuid(before?.uuid), .int64(Int64(limit))] }
    static func decode(_ row: PostgresRow) throws -> CountedShare { try row.decode { try CountedShare(&$0) } }
}

/// Lists the shares of a campaign with their counts, the latest first.
struct ListSharesOfCampaign: PostgresStatement {
    static let sql: SQL = """
        WITH page AS (
            SELECT *
            FROM shares
            WHERE campaign = $3
                AND ($1::uuid IS NULL OR id < $1)
            ORDER BY id DESC
            LIMIT $2
        )
        \(CountedShare.ofPage)
        """

    let campaign: String
    let before: ShareID?
    let limit: Int

    var parameters: [PostgresValue] { [.uuid(before?.uuid), .int64(Int64(limit)), .text(campaign)] }
    static func decode(_ row: PostgresRow) throws -> CountedShare { try row.decode { try CountedShare(&$0) } }
}

extension CountedShare {
    fileprivate static let columns: SQL = """
        id, campaign, template_id, args, links, created_at, expires_at, COALESCE(arrivals, '{}'),
            COALESCE(landings, 0), COALESCE(conversions, '{}')
        """

    /// The selection of the shares of the query `page`.
    fileprivate static let ofPage: SQL = """
        SELECT \(columns)
        FROM page
        LEFT JOIN share_totals(ARRAY(SELECT id FROM page)) AS total ON total.share_id = id
        ORDER BY id DESC
        """

    /// Decodes ``columns``.
    fileprivate init(_ column: inout ColumnCursor) throws {
        try self.init(
            id: ShareID(column.next(UUID.self)),
            campaign: column.next(),
            templateID: column.next(),
            args: column.next(),
            links: column.next(),
            createdAt: column.next(),
            expiresAt: column.next(),
            arrivals: column.next(),
            landings: column.next(),
            conversions: column.next()
        )
    }
}

/// Enqueues visits of landing addresses to be counted, each visitor of a share once a minute.
struct InsertLandings: CoalescedStatement {
    typealias Item = Landing

    static let sql: SQL = """
        WITH visit AS (
            INSERT INTO share_visits AS known (share_id, visitor, counted_at)
            SELECT DISTINCT share_id, visitor, now()
            FROM unnest($1::uuid[], $2::bytea[]) AS landing (share_id, visitor)
            ORDER BY share_id, visitor
            ON CONFLICT (share_id, visitor) DO UPDATE
            SET counted_at = excluded.counted_at
            WHERE known.counted_at < excluded.counted_at - interval '1 minute'
            RETURNING share_id
        )
        INSERT INTO share_events (kind, name, share_id, args)
        SELECT 'landing', '', share_id,
            (SELECT jsonb_object_agg(name, left(share.args ->> name, 101)) FROM unnest($3::text[]) AS name)
        FROM visit
        JOIN shares AS share ON share.id = share_id
        """

    let landings: [Landing]
    let statisticsArgs: [String]

    var parameters: [PostgresValue] {
        [.uuids(landings.map(\.shareID.uuid)), .byteas(landings.map(\.visitor)), .texts(statisticsArgs)]
    }
}

/// Stores conversions, once for each share, event and user, and enqueues them to be counted.
struct InsertConversions: CoalescedStatement {
    typealias Item = Conversion

    static let sql: SQL = """
        WITH conversion AS (
            INSERT INTO share_conversions (share_id, event, user_id)
            SELECT DISTINCT share_id, event, user_id
            FROM unnest($1::uuid[], $2::text[], $3::bigint[]) AS reported (share_id, event, user_id)
            ORDER BY share_id, event, user_id
            ON CONFLICT DO NOTHING
            RETURNING share_id, event
        )
        INSERT INTO share_events (kind, name, share_id, args)
        SELECT 'conversion', event, share_id,
            (SELECT jsonb_object_agg(name, left(share.args ->> name, 101)) FROM unnest($4::text[]) AS name)
        FROM conversion
        JOIN shares AS share ON share.id = share_id
        """

    let conversions: [Conversion]
    let statisticsArgs: [String]

    var parameters: [PostgresValue] {
        [
            .uuids(conversions.map(\.shareID.uuid)), .texts(conversions.map(\.event)),
            .int64s(conversions.map(\.userID)), .texts(statisticsArgs),
        ]
    }
}

/// Deletes the conversions of a user. The numbers of conversions are kept.
struct DeleteConversions: PostgresStatement {
    static let sql: SQL = """
        DELETE FROM share_conversions
        WHERE user_id = $1
        """

    let userID: Int64

    var parameters: [PostgresValue] { [.int64(userID)] }
}

/// Removes an argument from those of the next shares in which its value is a user's id.
struct RemoveUserFromShares: ArgumentErasureStatement {
    static let sql: SQL = """
        WITH step AS (
            SELECT id, args
            FROM shares
            WHERE id > $1
            ORDER BY id
            LIMIT $4
        ),
        changed AS (
            UPDATE shares AS share
            SET args = share.args - $2
            FROM step
            WHERE share.id = step.id
                AND step.args ->> $2 = $3
        )
        SELECT id
        FROM step
        ORDER BY id DESC
        LIMIT 1
        """

    let step: ArgumentErasure
}

/// Deletes up to `limit` visits that are too old to be repeated. Skips rows that another server is deleting.
struct DeleteOldVisits: PostgresStatement {
    static let sql: SQL = """
        DELETE FROM share_visits
        WHERE (share_id, visitor) IN (
            SELECT share_id, visitor
            FROM share_visits
            WHERE counted_at < now() - interval '10 minutes'
            ORDER BY counted_at
            LIMIT $1
            FOR UPDATE SKIP LOCKED
        )
        """

    let limit: Int

    var parameters: [PostgresValue] { [.int64(Int64(limit))] }
}
