import FoundationEssentials
import Postgres

/// Reads the users whom a push did not reach, page by page, from the lists of skipped users and from batches and parts, without a row
/// for each user.
struct ExportedUserStore: Sendable {
    /// The number of batches whose users are read at a time, of up to a hundred users each.
    private static let maxBatchesPerRead = 100
    /// The number of users of a list that are read at a time. More would keep the event loop busy for milliseconds.
    private static let maxUsersPerRead: Int32 = 5000

    let pool: PostgresPool
    /// Whether user ids are Kakao's. Otherwise those of events are of other users.
    let hasKakaoUserIDs: Bool

    /// A push whose users are exported.
    struct Push: Sendable {
        let id: UUID
        let createdAt: Date
        /// Whether retention has begun to delete its batches.
        let isRemoved: Bool
        let state: PushState
        /// Whether none of its requests is in flight, if it was canceled or has expired.
        let isSettled: Bool
        /// Why its last batches were not sent; `nil` if it was neither canceled nor has expired.
        let unsentCause: UnreachedCause?
    }

    /// Users with the same cause.
    struct Users: Sendable {
        fileprivate(set) var ids: [Int64]
        let cause: UnreachedCause
        var kakaoCode: Int32?
        /// Kakao's words, or why there are none.
        var kakaoMessage: String?
        /// Whether a request that was not answered may have reached them.
        var mayRepeat = false
        fileprivate let place: Place
    }

    /// A place in the export. The next users begin after it.
    fileprivate enum Place: Sendable {
        /// A list of skipped users of `push_skipped`, and the number of its users before the place.
        case list(UnreachedCause, position: Int64, users: Int32)
        /// A batch.
        case batch(Int32)
        /// A batch that waits.
        case waiting(Int32)
        /// A part of the push, and the number of its users before the place.
        case part(Int32, users: Int32)
        case end
    }

    /// Returns a push; `nil` if there is none.
    func find(_ id: UUID) async throws -> Push? {
        try await pool.read(FindExportedPush(id: id)).first
    }

    /// Returns the next users of an export, without those who have left the app since the push was created; none after the last ones.
    ///
    /// - Parameters:
    ///   - causes: The chosen causes, which ``ExportedUsers/causes`` lists.
    ///   - last: The last users that were returned; `nil` for the first ones.
    /// - Throws: ``PushRemoved`` if retention has begun to delete the push, so that users may be missing; ``PostgresError``.
    func users(
        _ exported: ExportedUsers,
        of push: Push,
        _ causes: [UnreachedCause],
        after last: Users?
    ) async throws -> [Users] {
        var users = try await read(exported, of: push, causes, after: last?.place)
        guard !users.isEmpty else {
            guard try await pool.read(FindPush(id: push.id)).first == false else { throw PushRemoved() }
            return []
        }
        let search = FindDepartedUsers(
            userIDs: users.flatMap(\.ids),
            since: push.createdAt,
            haveUnlinked: hasKakaoUserIDs
        )
        guard let departed = try await pool.read(search).first, !departed.isEmpty else { return users }
        for place in users.indices { users[place].ids.subtract(departed) }
        return users
    }

    /// Retention has begun to delete a push.
    struct PushRemoved: Error {}

    private func read(
        _ exported: ExportedUsers,
        of push: Push,
        _ causes: [UnreachedCause],
        after place: Place?
    ) async throws -> [Users] {
        switch exported {
        case .skipped: return try await skipped(of: push.id, causes, after: place)
        case .failed: return try await batches(of: push.id, .failed, after: place)
        case .uncertain: return try await uncertain(of: push, after: place)
        case .unsent:
            guard let cause = push.unsentCause, causes.contains(cause) else { return [] }
            return try await unsent(of: push.id, cause, after: place)
        }
    }

    /// Returns skipped users, in ascending order for each cause.
    private func skipped(of push: UUID, _ causes: [UnreachedCause], after place: Place?) async throws -> [Users] {
        if case .end = place { return [] }
        var list = ListSkippedUsers(pushID: push, causes: causes, limit: Self.maxUsersPerRead)
        if case .list(let cause, let position, let users) = place {
            (list.cause, list.position, list.start) = (cause.rawValue, position, users)
        }
        let users = try await pool.read(list)
        guard users.isEmpty, place == nil, causes.contains(.noDevice) else { return users }
        return try await pool.read(ReadUsersBesideBatch(pushID: push)).filter { !$0.ids.isEmpty }
    }

    private func batches(of push: UUID, _ state: BatchState, after place: Place?) async throws -> [Users] {
        var last: Int32 = 0
        if case .batch(let batch) = place { last = batch }
        let list = ListUsersOfBatches(pushID: push, state: state.rawValue, after: last, limit: Self.maxBatchesPerRead)
        return try await pool.read(list).map { $0.users(at: .batch($0.batch)) }
    }

    /// Returns users who may have been reached: first those of uncertain batches, then those of batches that were to be sent again when
    /// the push was canceled or expired.
    private func uncertain(of push: Push, after place: Place?) async throws -> [Users] {
        var last: Int32 = 0
        if case .waiting(let batch) = place {
            last = batch
        } else {
            let users = try await batches(of: push.id, .uncertain, after: place)
            guard users.isEmpty, push.unsentCause != nil else { return users }
        }
        return try await waiting(of: push.id, mayRepeat: true, after: last).map { $0.users(at: .waiting($0.batch)) }
    }

    private func waiting(of push: UUID, mayRepeat: Bool, after batch: Int32) async throws -> [ExportedBatch] {
        try await pool.read(
            ListWaitingBatches(pushID: push, mayRepeat: mayRepeat, after: batch, limit: Self.maxBatchesPerRead)
        )
    }

    /// Returns users who were not sent to: first those whose batches have rows of their own, then those whose batches were not claimed.
    private func unsent(of push: UUID, _ cause: UnreachedCause, after place: Place?) async throws -> [Users] {
        var (part, start): (Int32, Int32) = (0, 0)
        if case .part(let number, let users) = place {
            (part, start) = (number, users)
        } else {
            var last: Int32 = 0
            if case .waiting(let batch) = place { last = batch }
            let users = try await waiting(of: push, mayRepeat: false, after: last).map {
                Users(ids: $0.ids, cause: cause, place: .waiting($0.batch))
            }
            guard users.isEmpty else { return users }
        }
        let list = ListUnclaimedUsers(pushID: push, part: part, start: start, limit: Self.maxUsersPerRead)
        return try await pool.read(list).map { number, start, ids in
            Users(ids: ids, cause: cause, place: .part(number, users: start + Int32(clamping: ids.count)))
        }
    }
}

// MARK: Statements

/// Finds a push whose users are to be exported.
struct FindExportedPush: PostgresStatement {
    static let sql: SQL = """
        SELECT push.id, push.created_at, push.removed_at IS NOT NULL, push.state, push_is_settled(push.id),
            summary.unsent_cause
        FROM pushes AS push
        JOIN push_summaries AS summary USING (id)
        WHERE id = $1
        """

    let id: UUID

    var parameters: [PostgresValue] { [.uuid(id)] }

    static func decode(_ row: PostgresRow) throws -> ExportedUserStore.Push {
        try row.decode { column in
            try ExportedUserStore.Push(
                id: column.next(),
                createdAt: column.next(),
                isRemoved: column.next(),
                state: PushState(rawValue: column.next()) ?? .halted,
                isSettled: column.next(),
                unsentCause: column.next(String?.self).flatMap(UnreachedCause.init(rawValue:))
            )
        }
    }
}

/// Returns those of some users who have left the app since a time, as far as it is known, in ascending order: users who were erased are
/// known for a day.
struct FindDepartedUsers: PostgresStatement {
    static let sql: SQL = """
        SELECT ARRAY(
            SELECT user_id
            FROM events
            WHERE user_id = ANY ($1)
                AND happened_at >= $2
                AND is_departure(type)
                AND $3
            UNION
            SELECT user_id
            FROM accounts
            WHERE user_id = ANY ($1)
                AND state = 'unlinked'
                AND $3
            UNION
            SELECT user_id
            FROM erased_users
            WHERE user_id = ANY ($1)
                AND erased_at >= $2
            ORDER BY user_id
        )
        """

    let userIDs: [Int64]
    let since: Date
    /// Whether to look for users who have unlinked the app: their ids are Kakao's.
    let haveUnlinked: Bool

    var parameters: [PostgresValue] { [.int64s(userIDs), .timestamp(since), .bool(haveUnlinked)] }

    static func decode(_ row: PostgresRow) throws -> [Int64] { try row.decode([Int64].self) }
}

/// Reads up to `limit` users of the next list of users whom a push skipped, in the order of the causes and of the steps.
struct ListSkippedUsers: PostgresStatement {
    static let sql: SQL = """
        SELECT cause, position, start, id_bytes, substring(ids FROM id_bytes * start + 1 FOR id_bytes * $6)
        FROM (
            SELECT cause, position, id_bytes, ids, CASE WHEN (cause, position) = ($3, $4) THEN $5 ELSE 0 END AS start
            FROM push_skipped
            WHERE push_id = $1
                AND cause = ANY ($2)
                AND (cause, position) >= ($3, $4)
                -- A list that was read to its end.
                AND ((cause, position) <> ($3, $4) OR octet_length(ids) > id_bytes * $5)
            ORDER BY cause, position
            LIMIT 1
        ) AS list
        """

    let pushID: UUID
    let causes: [UnreachedCause]
    /// The list that was read last, and the number of its users that were read; before the first list, no list has this cause.
    var cause = ""
    var position: Int64 = 0
    var start: Int32 = 0
    let limit: Int32

    var parameters: [PostgresValue] {
        [
            .uuid(pushID), .texts(causes.map(\.rawValue)), .text(cause), .int64(position), .int32(start), .int32(limit),
        ]
    }

    static func decode(_ row: PostgresRow) throws -> ExportedUserStore.Users {
        let (cause, position, start, width, bytes) = try row.decode(
            String.self,
            Int64.self,
            Int32.self,
            Int32.self,
            [UInt8].self
        )
        let ids = UserIDBytes(bytes: bytes, width: Int(width))
        let known = UnreachedCause(rawValue: cause) ?? .noDevice
        return ExportedUserStore.Users(
            ids: ids.ids(0..<ids.count),
            cause: known,
            place: .list(known, position: position, users: start + Int32(clamping: ids.count))
        )
    }
}

/// Returns the users of a push of a single batch who are not in it: they have no device that the message addresses. The parts of a
/// rejected batch have all of its users.
struct ReadUsersBesideBatch: PostgresStatement {
    static let sql: SQL = """
        SELECT ARRAY(
            SELECT item.user_id
            FROM unnest(user_ids) AS item (user_id)
            WHERE item.user_id NOT IN (
                SELECT unnest(push_batches.user_ids)
                FROM push_batches
                WHERE push_id = $1
            )
            ORDER BY item.user_id
        )
        FROM pushes
        WHERE id = $1
            AND user_ids IS NOT NULL
            AND prepared_up_to = 0
            AND prepared_at IS NOT NULL
            AND removed_at IS NULL
        """

    let pushID: UUID

    var parameters: [PostgresValue] { [.uuid(pushID)] }

    static func decode(_ row: PostgresRow) throws -> ExportedUserStore.Users {
        ExportedUserStore.Users(ids: try row.decode([Int64].self), cause: .noDevice, place: .end)
    }
}

/// The users of a batch, and its last response.
struct ExportedBatch: Sendable {
    /// The number of the batch, or of the rejected batch that it is a part of.
    let batch: Int32
    let ids: [Int64]
    let kakaoCode: Int32?
    let kakaoMessage: String?
    let mayRepeat: Bool

    fileprivate init(_ row: PostgresRow) throws {
        self = try row.decode { column in
            try ExportedBatch(
                batch: column.next(),
                ids: column.next(),
                kakaoCode: column.next(),
                kakaoMessage: column.next(),
                mayRepeat: column.next()
            )
        }
    }

    private init(batch: Int32, ids: [Int64], kakaoCode: Int32?, kakaoMessage: String?, mayRepeat: Bool) {
        (self.batch, self.ids, self.mayRepeat) = (batch, ids, mayRepeat)
        (self.kakaoCode, self.kakaoMessage) = (kakaoCode, kakaoMessage)
    }

    /// Returns the users with the last response to their batch as the cause.
    fileprivate func users(at place: ExportedUserStore.Place) -> ExportedUserStore.Users {
        ExportedUserStore.Users(
            ids: ids,
            cause: kakaoCode == nil ? .noAnswer : .kakaoError,
            kakaoCode: kakaoCode,
            kakaoMessage: kakaoMessage,
            mayRepeat: mayRepeat,
            place: place
        )
    }

    /// Returns a query of batches with rows of their own of the push `$1` after the batch `$2`, in ascending order of their users, at least
    /// `$3` if there are as many.
    ///
    /// Users ascend by the batches that they were prepared in. The parts of a rejected batch therefore come in its place, and
    /// all of them on one page.
    fileprivate static func query(of condition: SQL) -> SQL {
        """
        SELECT batch, user_ids, kakao_code, kakao_message, may_repeat
        FROM (
            (
                SELECT number AS batch, COALESCE(user_ids, push_part_users($1, number)) AS user_ids, kakao_code, kakao_message, may_repeat
                FROM push_batches
                WHERE push_id = $1
                    AND \(condition)
                    AND origin IS NULL
                    AND number > $2
                ORDER BY number
                LIMIT $3
            )
            UNION ALL
            (
                SELECT origin, user_ids, kakao_code, kakao_message, may_repeat
                FROM push_batches
                WHERE push_id = $1
                    AND \(condition)
                    AND origin > $2
                ORDER BY origin
                FETCH FIRST $3 ROWS WITH TIES
            )
            ORDER BY batch
            FETCH FIRST $3 ROWS WITH TIES
        ) AS page
        ORDER BY batch, user_ids[1]
        """
    }
}

/// Lists the users of failed or uncertain batches of a push in ascending order.
struct ListUsersOfBatches: PostgresStatement {
    static let sql = ExportedBatch.query(of: "state = $4 AND state IN ('failed', 'uncertain')")

    let pushID: UUID
    let state: String
    /// The last batch of the previous page; 0 for the first page.
    let after: Int32
    let limit: Int

    var parameters: [PostgresValue] {
        [.uuid(pushID), .int32(after), .int64(Int64(limit)), .text(state)]
    }
    static func decode(_ row: PostgresRow) throws -> ExportedBatch { try ExportedBatch(row) }
}

/// Lists the users of those batches of a push with rows of their own that wait, in ascending order.
struct ListWaitingBatches: PostgresStatement {
    static let sql = ExportedBatch.query(of: "state = 'waiting' AND may_repeat = $4")

    let pushID: UUID
    /// Whether a request that was not answered may have reached the users, or certainly has not.
    let mayRepeat: Bool
    /// The last batch of the previous page; 0 for the first page.
    let after: Int32
    let limit: Int

    var parameters: [PostgresValue] { [.uuid(pushID), .int32(after), .int64(Int64(limit)), .bool(mayRepeat)] }
    static func decode(_ row: PostgresRow) throws -> ExportedBatch { try ExportedBatch(row) }
}

/// Reads up to `limit` users of the next part of a push that has batches which were not claimed.
struct ListUnclaimedUsers: PostgresStatement {
    static let sql: SQL = """
        SELECT number, start, id_bytes, substring(ids FROM id_bytes * start + 1 FOR id_bytes * $4)
        FROM (
            SELECT number, id_bytes, ids, GREATEST(claimed * batch_users, CASE WHEN number = $2 THEN $3 ELSE 0 END) AS start
            FROM push_parts
            WHERE push_id = $1
                AND claimed < batches
                AND number >= $2
                -- A part that was read to its end.
                AND (number > $2 OR octet_length(ids) > id_bytes * $3)
            ORDER BY number
            LIMIT 1
        ) AS part
        """

    let pushID: UUID
    /// The part that was read last, and the number of its users before the next ones.
    let part: Int32
    let start: Int32
    let limit: Int32

    var parameters: [PostgresValue] { [.uuid(pushID), .int32(part), .int32(start), .int32(limit)] }

    static func decode(_ row: PostgresRow) throws -> (part: Int32, start: Int32, ids: [Int64]) {
        let (part, start, width, bytes) = try row.decode(Int32.self, Int32.self, Int32.self, [UInt8].self)
        let ids = UserIDBytes(bytes: bytes, width: Int(width))
        return (part, start, ids.ids(0..<ids.count))
    }
}
