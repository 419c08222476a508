import FoundationEssentials
import Postgres

/// Looks up users of pushes in the batches and parts, without a row for each user.
/// `migrations/functions/push_user_batch.sql` explains how.
struct PushUserStore: Sendable {
    /// The number of pushes that one statement searches for a user. A push of a million users takes about a millisecond.
    private static let maxPushesPerSearch = 100
    /// The maximum number of these statements for a page.
    private static let maxSearchesPerPage = 10
    /// The number of batches whose users are read at a time, of up to a hundred users each.
    private static let maxBatchesPerRead = 100

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

    /// Returns whether retention has begun to delete the batches of a push; `nil` if there is no such push.
    func isRemoved(_ pushID: UUID) async throws -> Bool? {
        try await pool.read(FindPush(id: pushID)).first
    }

    /// The users of a batch.
    struct BatchUsers: Sendable {
        /// The number of the batch, or of the rejected batch that it is a part of.
        let batch: Int32
        let ids: [Int64]
    }

    /// Returns the users of the next batches of a push in a state, in ascending order.
    ///
    /// - Parameters:
    ///   - state: `failed` or `uncertain`.
    ///   - batch: The batch after which the returned ones begin.
    func users(of pushID: UUID, _ state: String, after batch: Int32) async throws -> [BatchUsers] {
        try await pool.read(
            ListUsersOfBatches(pushID: pushID, state: state, after: batch, limit: Self.maxBatchesPerRead)
        )
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

/// Lists the users of failed or uncertain batches of a push in ascending order.
///
/// Users ascend by the batches that they were prepared in. The parts of a rejected batch therefore come in its place, and
/// all of them on one page.
struct ListUsersOfBatches: PostgresStatement {
    static let sql: SQL = """
        SELECT batch, user_ids
        FROM (
            (
                SELECT number AS batch, COALESCE(user_ids, push_part_users($1, number)) AS user_ids
                FROM push_batches
                WHERE push_id = $1
                    AND state = $2
                    AND state IN ('failed', 'uncertain')
                    AND origin IS NULL
                    AND number > $3
                ORDER BY number
                LIMIT $4
            )
            UNION ALL
            (
                SELECT origin, user_ids
                FROM push_batches
                WHERE push_id = $1
                    AND state = $2
                    AND origin > $3
                ORDER BY origin
                FETCH FIRST $4 ROWS WITH TIES
            )
            ORDER BY batch
            FETCH FIRST $4 ROWS WITH TIES
        ) AS page
        ORDER BY batch, user_ids[1]
        """

    let pushID: UUID
    let state: String
    /// The last batch of the previous page; 0 for the first page.
    let after: Int32
    let limit: Int

    var parameters: [PostgresValue] {
        [.uuid(pushID), .text(state), .int32(after), .int64(Int64(limit))]
    }
    static func decode(_ row: PostgresRow) throws -> PushUserStore.BatchUsers {
        let (batch, ids) = try row.decode(Int32.self, [Int64].self)
        return PushUserStore.BatchUsers(batch: batch, ids: ids)
    }
}
