import Endpoints
import FoundationEssentials
import KakaoAPI
import Postgres
import Runtime
import Schemas

/// The inboxes of users: the pushes of the last days that were sent to each, without a row for each user.
///
/// The searches of concurrent requests share a statement, which reads the packed users of each push once for all of them.
final class PushInbox: Sendable {
    /// The maximum number of pushes of a page.
    static let maxPushes = 100
    /// The maximum number of requests that share a statement. Other reads of the loop wait behind it.
    private static let maxRequestsPerSearch = 16
    /// The maximum number of requests that wait for a search: some seconds of the slowest ones. Further ones are 503 at once.
    private static let maxWaitingRequests = 500
    /// The contents that a loop caches, and the maximum size of each in bytes: a few megabytes.
    static let maxContents = 500
    /// Kakao limits the message of each platform to 4 KB.
    private static let maxCachedBytes = 9000

    typealias Contents = LRUCache<UUID, [UInt8]>

    private let pool: PostgresPool
    private let kakaoVersion: PushVersion
    private let searches: StatementCoalescer<SearchInbox>
    /// The notifications of pushes as JSON, which never change.
    private let contents: LoopValue<Contents>.Copy

    /// - Parameters:
    ///   - days: The days before now whose pushes are shown.
    ///   - contents: The cache of the pool's loop.
    init(pool: PostgresPool, days: Int, kakaoVersion: PushVersion, contents: LoopValue<Contents>.Copy) {
        self.pool = pool
        self.kakaoVersion = kakaoVersion
        self.contents = contents
        searches = StatementCoalescer(
            pool: pool,
            access: .read,
            maximumItems: Self.maxRequestsPerSearch,
            maximumWaiting: Self.maxWaitingRequests
        ) { SearchInbox(requests: $0, days: days) }
    }

    /// Returns a page of the pushes that were sent to a user, the latest first. Called on the pool's loop.
    ///
    /// - Returns: Up to `limit` pushes, at most ``maxPushes``, and where the search has to continue; `nil` if it is complete. It ends early
    ///   if the user is in few of very many pushes.
    func page(_ request: InboxRequest, limit: Int) async throws -> (pushes: [InboxPush], next: InboxCursor?) {
        let searched = try await searches.submit(request)
        let (found, next) = Self.cut(searched, limit: min(limit, Self.maxPushes), maxSearched: SearchInbox.maxPushes)
        let contents = try await contents(of: found.map(\.id))
        let pushes = found.compactMap { push -> InboxPush? in
            // Deleted meanwhile.
            guard let content = contents[push.id] else { return nil }
            return InboxPush(
                id: push.id,
                sentAt: push.startedAt,
                openedAt: push.openedAt,
                isUncertain: push.state != .sent,
                notifications: content
            )
        }
        return (pushes, next)
    }

    /// Returns which of the searched pushes are on a page, and where the next one begins.
    ///
    /// Pushes to one user and those to several are searched for separately. If one of the searches has ended early, what the other one
    /// has found beyond its end waits for the next page.
    static func cut(
        _ searched: [SearchedInboxPush],
        limit: Int,
        maxSearched: Int
    ) -> (found: [SearchedInboxPush], next: InboxCursor?) {
        let ends = [true, false].compactMap { isToOne -> InboxCursor? in
            let own = searched.filter { $0.isToOne == isToOne }
            return own.count == maxSearched ? own.last?.cursor : nil
        }
        let end = ends.max()
        let found = searched.filter { push in push.state != nil && end.map { $0 <= push.cursor } ?? true }
        guard found.count > limit else { return (found, end) }
        return (Array(found.prefix(limit)), found[limit - 1].cursor)
    }

    /// Returns the notifications of pushes. Pushes that do not exist are left out.
    private func contents(of ids: [UUID]) async throws -> [UUID: [UInt8]] {
        var known: [UUID: [UInt8]] = [:]
        contents.change { cache in
            for id in ids { known[id] = cache.value(id) }
        }
        let missing = ids.filter { known[$0] == nil }
        guard !missing.isEmpty else { return known }
        let read = try await pool.read(ReadInboxMessages(ids: missing)).map { id, message in
            (id, InboxNotification.json(of: message, kakaoVersion: kakaoVersion))
        }
        contents.change { cache in
            for (id, json) in read where json.count <= Self.maxCachedBytes { cache.set(json, for: id) }
        }
        for (id, json) in read { known[id] = json }
        return known
    }
}

/// A request for a page of a user's inbox.
struct InboxRequest: Sendable {
    let userID: Int64
    /// Only pushes whose sending began since then.
    let since: Date?
    /// The last push of the previous page.
    let before: InboxCursor?
}

/// The place of a push in an inbox: the latest have the highest.
struct InboxCursor: PageCursor, Comparable {
    /// When sending began, in microseconds since 1970.
    let microseconds: Int64
    let id: UUID

    init(_ startedAt: Date, _ id: UUID) {
        microseconds = Int64(exactly: (startedAt.timeIntervalSince1970 * 1_000_000).rounded()) ?? 0
        self.id = id
    }

    init?(cursor: String) {
        let parts = cursor.split(separator: "-", maxSplits: 1)
        guard parts.count == 2, let microseconds = Int64(decimal: String(parts[0])), microseconds < 1 << 52,
            let id = UUID(uuidString: String(parts[1]))
        else { return nil }
        self.microseconds = microseconds
        self.id = id
    }

    var cursor: String { "\(microseconds)-\(id.lowercased)" }

    var startedAt: Date { Date(timeIntervalSince1970: Double(microseconds) / 1_000_000) }

    static func < (left: InboxCursor, right: InboxCursor) -> Bool {
        (left.microseconds, left.id) < (right.microseconds, right.id)
    }
}

// MARK: Statements

/// A push that was searched for a user.
struct SearchedInboxPush: Sendable {
    let id: UUID
    let startedAt: Date
    /// Whether it was sent to this user alone.
    let isToOne: Bool
    /// The state of the user's batch; `nil` if the push was not sent to the user.
    let state: BatchState?
    let openedAt: Date?

    var cursor: InboxCursor { InboxCursor(startedAt, id) }
}

/// Searches for users in the latest pushes, each in up to ``maxPushes`` of those to one user and of those to several. Returns every push
/// that was searched, the latest first.
///
/// What was canceled was a mistake, and is not shown. A batch that may have been sent is, also while it waits to be sent again.
struct SearchInbox: CoalescedStatement {
    typealias Item = InboxRequest
    typealias Output = [SearchedInboxPush]

    /// The maximum number of pushes of either kind that are searched for a request.
    static let maxPushes = 100

    static let sql: SQL = """
        WITH given AS MATERIALIZED (
            SELECT place, user_id, GREATEST(since, now() - make_interval(days => $5)) AS since,
                COALESCE(before_at, 'infinity') AS before_at,
                COALESCE(before_id, 'ffffffff-ffff-ffff-ffff-ffffffffffff') AS before_id
            FROM unnest($1::bigint[], $2::timestamptz[], $3::timestamptz[], $4::uuid[]) WITH ORDINALITY
                AS item (user_id, since, before_at, before_id, place)
        ),
        searched AS MATERIALIZED (
            SELECT given.place, given.user_id, push.id, push.started_at, push.is_to_one
            FROM given
            CROSS JOIN LATERAL (
                (
                    SELECT id, started_at, true AS is_to_one
                    FROM pushes
                    WHERE cardinality(user_ids) = 1
                        AND started_at IS NOT NULL
                        AND user_ids[1] = given.user_id
                        AND started_at >= given.since
                        AND (started_at, id) < (given.before_at, given.before_id)
                        AND state <> 'canceled'
                        AND removed_at IS NULL
                    ORDER BY started_at DESC, id DESC
                    LIMIT $6
                )
                UNION ALL
                (
                    SELECT id, started_at, false
                    FROM pushes
                    WHERE cardinality(user_ids) IS DISTINCT FROM 1
                        AND started_at IS NOT NULL
                        AND started_at >= given.since
                        AND (started_at, id) < (given.before_at, given.before_id)
                        AND state <> 'canceled'
                        AND removed_at IS NULL
                    ORDER BY started_at DESC, id DESC
                    LIMIT $6
                )
            ) AS push
        ),
        found AS MATERIALIZED (
            SELECT push.id, member.user_id, member.state
            FROM (SELECT id, array_agg(user_id) AS user_ids FROM searched GROUP BY id) AS push
            CROSS JOIN LATERAL push_users(push.id, push.user_ids) AS member
            WHERE member.state IN ('sent', 'uncertain')
                OR member.may_repeat
        )
        SELECT searched.place, searched.id, searched.started_at, searched.is_to_one, found.state,
            CASE
                WHEN found.state IS NOT NULL
                    THEN (SELECT opened_at FROM push_opens WHERE push_id = searched.id AND user_id = searched.user_id)
            END
        FROM searched
        LEFT JOIN found ON found.id = searched.id AND found.user_id = searched.user_id
        ORDER BY searched.place, searched.started_at DESC, searched.id DESC
        """

    let requests: [InboxRequest]
    let days: Int

    var parameters: [PostgresValue] {
        [
            .int64s(requests.map(\.userID)), .timestamps(requests.map(\.since)),
            .timestamps(requests.map { $0.before?.startedAt }), .uuids(requests.map { $0.before?.id }),
            .int32(Int32(days)), .int64(Int64(Self.maxPushes)),
        ]
    }

    static func decode(_ row: PostgresRow) throws -> (index: Int, push: SearchedInboxPush) {
        try row.decode { column in
            let index = try Int(column.next(Int64.self)) - 1
            let push = try SearchedInboxPush(
                id: column.next(),
                startedAt: column.next(),
                isToOne: column.next(),
                state: column.next(String?.self).map { BatchState(rawValue: $0) ?? .uncertain },
                openedAt: column.next()
            )
            return (index, push)
        }
    }

    static func outputs(_ rows: PostgresRows, count: Int) throws -> [[SearchedInboxPush]] {
        var outputs = [[SearchedInboxPush]](repeating: [], count: count)
        for row in rows {
            let (index, push) = try decode(row)
            if outputs.indices.contains(index) { outputs[index].append(push) }
        }
        return outputs
    }
}

/// Reads the messages of pushes.
struct ReadInboxMessages: PostgresStatement {
    static let sql: SQL = """
        SELECT id, message, message_version
        FROM pushes
        WHERE id = ANY ($1)
        """

    let ids: [UUID]

    var parameters: [PostgresValue] { [.uuids(ids)] }

    static func decode(_ row: PostgresRow) throws -> (UUID, PushMessage) {
        try row.decode { column in
            let id = try column.next(UUID.self)
            return try (id, PushMessage(text: column.next(), version: PushVersion(rawValue: column.next()) ?? .v1))
        }
    }
}
