import FoundationEssentials
import Postgres

/// Looks up users of pushes in the batches and parts, without a row for each user.
/// `migrations/functions/push_user_batch.sql` explains how.
struct PushUserStore: Sendable {
    /// The number of pushes that one statement searches for a user. A push of a million users takes about a millisecond.
    private static let maxPushesPerSearch = 100
    /// The maximum number of these statements for a page.
    private static let maxSearchesPerPage = 10

    let pool: PostgresPool

    /// The result of the search for a user in a push.
    enum Search: Sendable {
        case found(PushUser)
        /// `isPrepared`: Whether the whole audience is in batches.
        case notInPush(isPrepared: Bool)
        /// Retention has begun to delete the batches.
        case pushRemoved
        case noSuchPush
    }

    /// Searches for a user in a push.
    func find(_ userID: Int64, in pushID: UUID) async throws -> Search {
        guard let push = try await pool.read(FindPushUser(pushID: pushID, userID: userID)).first else {
            return .noSuchPush
        }
        guard !push.isRemoved else { return .pushRemoved }
        return push.user.map { .found($0) } ?? .notInPush(isPrepared: push.isPrepared)
    }

    /// Returns pushes that a user is in, the latest first.
    ///
    /// - Returns: Up to `limit` pushes, and the push after which the search has to continue; `nil` if it is complete. It
    ///   ends early if the user is in few of very many pushes.
    func pushes(
        ofUser userID: Int64,
        since: Date,
        before: UUID?,
        limit: Int
    ) async throws -> (pushes: [PushUser], next: UUID?) {
        var found: [PushUser] = []
        var last = before
        for _ in 0..<Self.maxSearchesPerPage {
            let search = SearchPushesForUser(userID: userID, since: since, before: last, limit: Self.maxPushesPerSearch)
            let pushes = try await pool.queryAlone(search)
            for push in pushes {
                last = push.id
                if let user = push.user { found.append(user) }
                if found.count == limit { return (found, last) }
            }
            guard pushes.count == Self.maxPushesPerSearch else { return (found, nil) }
        }
        return (found, last)
    }
}

// MARK: Statements

/// A push that was searched for a user.
struct SearchedPush: Sendable {
    let id: UUID
    let isRemoved: Bool
    let isPrepared: Bool
    /// `nil` if the user is not in the push.
    let user: PushUser?
}

extension SearchedPush {
    /// The columns of `push`, and of the batch `found`, that ``init(_:)`` decodes.
    fileprivate static let columns: SQL = """
        id, removed_at IS NOT NULL, prepared_at IS NOT NULL, batch IS NOT NULL, name, first_words, created_at, push.state, batch, found.state,
            attempts, may_repeat, kakao_status, kakao_code, kakao_message, found.finished_at
        """

    fileprivate init(_ row: PostgresRow) throws {
        self = try row.decode { column in
            let id = try column.next(UUID.self)
            let isRemoved = try column.next(Bool.self)
            let isPrepared = try column.next(Bool.self)
            let isFound = try column.next(Bool.self)
            let user = try PushUser(
                pushID: id,
                pushName: column.next(),
                firstWords: column.next(),
                createdAt: column.next(),
                pushState: PushState(rawValue: column.next()) ?? .halted,
                batch: column.next(Int32?.self) ?? 0,
                state: BatchState(rawValue: column.next(String?.self) ?? "") ?? .waiting,
                attempts: column.next(Int32?.self) ?? 0,
                mayRepeat: column.next(Bool?.self) ?? false,
                kakaoStatus: column.next(),
                kakaoCode: column.next(),
                kakaoMessage: column.next(),
                finishedAt: column.next()
            )
            return SearchedPush(id: id, isRemoved: isRemoved, isPrepared: isPrepared, user: isFound ? user : nil)
        }
    }
}

/// Searches for a user in a push. Returns no row if there is no such push.
struct FindPushUser: PostgresStatement {
    static let sql: SQL = """
        SELECT \(SearchedPush.columns)
        FROM pushes AS push
        LEFT JOIN LATERAL push_user(id, $2) AS found ON removed_at IS NULL
        WHERE id = $1
        """

    let pushID: UUID
    let userID: Int64

    var parameters: [PostgresValue] { [.uuid(pushID), .int64(userID)] }
    static func decode(_ row: PostgresRow) throws -> SearchedPush { try SearchedPush(row) }
}

/// Searches for a user in up to `limit` pushes, the latest first. Returns every push that was searched.
struct SearchPushesForUser: PostgresStatement {
    static let sql: SQL = """
        SELECT \(SearchedPush.columns)
        FROM (
            SELECT id, name, first_words, created_at, state, prepared_at, removed_at
            FROM pushes
            WHERE created_at >= $2
                -- An id is made just before its push is created.
                AND id >= uuid_v7_floor($2 - interval '1 minute')
                AND id < COALESCE($3, 'ffffffff-ffff-ffff-ffff-ffffffffffff'::uuid)
                AND removed_at IS NULL
            ORDER BY id DESC
            LIMIT $4
        ) AS push
        LEFT JOIN LATERAL push_user(id, $1) AS found ON true
        ORDER BY id DESC
        """

    let userID: Int64
    let since: Date
    /// The last push of the previous search; `nil` for the first one.
    let before: UUID?
    let limit: Int

    var parameters: [PostgresValue] { [.int64(userID), .timestamp(since), .uuid(before), .int64(Int64(limit))] }
    static func decode(_ row: PostgresRow) throws -> SearchedPush { try SearchedPush(row) }
}
