import Endpoints
import FoundationEssentials
package import Postgres
import Schemas
import ServiceKit

/// The relations of people to the company's KakaoTalk channels, in PostgreSQL.
package enum ChannelRelations {
    /// Stores changes, unless a later one is stored or the user has left the app since: Kakao may report them in another order.
    ///
    /// - Returns: The users of the app whose relation to a channel is another one now.
    package static func store(
        _ changes: [ChannelChange],
        in transaction: PostgresTransaction
    ) async throws -> Set<Int64> {
        guard !changes.isEmpty else { return [] }
        return Set(try await transaction.query(StoreChannelChanges(changes: changes)).compactMap(\.self))
    }
}

/// The relation of a user to a channel.
struct ChannelRelation: Sendable {
    let channelPublicID: String
    let channelUUID: String?
    let relation: String
    let updatedAt: Date

    static let shape = Shape<ChannelRelation>(
        "ChannelRelation",
        [
            .member("channel_public_id", .text, "The channel, as in its address.", \.channelPublicID),
            .nullable("channel_uuid", .text, "The search id of the channel, such as `@sample`.", \.channelUUID),
            .member(
                "relation",
                .text(oneOf: ChannelChange.Relation.allCases.map(\.rawValue)),
                "What the user has done.",
                \.relation
            ),
            .member("updated_at", .time, "When, by Kakao's clock.", \.updatedAt),
        ]
    )
}

// MARK: Statements

/// Stores changes, each unless a later one of the same person and channel is stored or the user has left the app since. Returns the user of
/// each that counts; `nil` for a person who is no user.
///
/// Rows are stored in the order of their keys, so that concurrent statements do not deadlock.
struct StoreChannelChanges: PostgresStatement {
    static let sql: SQL = """
        WITH latest AS MATERIALIZED (
            SELECT DISTINCT ON (id_type, id, channel_public_id) *
            FROM unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::text[], $6::timestamptz[])
                AS given (id_type, id, channel_public_id, channel_uuid, relation, updated_at)
            ORDER BY id_type, id, channel_public_id, updated_at DESC
        ),
        -- Materialized: all advisory locks of users are acquired before the first row's.
        admitted AS MATERIALIZED (
            SELECT *
            FROM latest
            WHERE CASE id_type WHEN 'app_user_id' THEN NOT user_has_left(id::bigint, updated_at) ELSE true END
        )
        INSERT INTO channel_relations AS known (id_type, id, channel_public_id, channel_uuid, relation, updated_at)
        SELECT *
        FROM admitted
        ORDER BY id_type, id, channel_public_id
        ON CONFLICT (id_type, id, channel_public_id) DO UPDATE
        SET channel_uuid = COALESCE(excluded.channel_uuid, known.channel_uuid),
            relation = excluded.relation,
            updated_at = excluded.updated_at,
            stored_at = now()
        WHERE known.updated_at < excluded.updated_at
        RETURNING CASE id_type WHEN 'app_user_id' THEN id::bigint END
        """

    let changes: [ChannelChange]

    var parameters: [PostgresValue] {
        [
            .texts(changes.map(\.person.idType)), .texts(changes.map(\.person.id)),
            .texts(changes.map(\.channelPublicID)), .texts(changes.map(\.channelUUID)),
            .texts(changes.map(\.relation.rawValue)), .timestamps(changes.map(\.updatedAt)),
        ]
    }

    static func decode(_ row: PostgresRow) throws -> Int64? { try row.decode(Int64?.self) }
}

/// Lists the relations of a user of the app, sorted by the channels' ids.
struct ListChannelsOfUser: PostgresStatement {
    static let sql: SQL = """
        SELECT channel_public_id, channel_uuid, relation, updated_at
        FROM channel_relations
        WHERE id_type = 'app_user_id'
            AND id = $1::bigint::text
            AND channel_public_id > COALESCE($2, '')
        ORDER BY channel_public_id
        LIMIT $3
        """

    let userID: Int64
    let after: String?
    let limit: Int64

    var parameters: [PostgresValue] { [.int64(userID), .text(after), .int64(limit)] }

    static func decode(_ row: PostgresRow) throws -> ChannelRelation {
        try row.decode { column in
            try ChannelRelation(
                channelPublicID: column.next(),
                channelUUID: column.next(),
                relation: column.next(),
                updatedAt: column.next()
            )
        }
    }
}

/// Deletes the relations of a user of the app; with a time, those that were stored until then.
struct DeleteChannelsOfUser: PostgresStatement {
    static let sql: SQL = """
        DELETE FROM channel_relations
        WHERE id_type = 'app_user_id'
            AND id = $1::bigint::text
            AND ($2::timestamptz IS NULL OR stored_at <= $2)
        """

    let userID: Int64
    let storedUntil: Date?

    var parameters: [PostgresValue] { [.int64(userID), .timestamp(storedUntil)] }
}

/// Deletes the relations of users who have left the app, except those that have changed since. Returns their number.
struct DeleteDepartedRelations: PostgresStatement {
    static let sql = SQL.sumOverDepartures("delete_departed_relations")

    let departures: [UserEvent]

    var parameters: [PostgresValue] { departures.parameters }

    static func decode(_ row: PostgresRow) throws -> Int64 { try row.decode(Int64.self) }
}

/// Deletes up to `limit` relations of people who have not agreed to tell the app, or have blocked a channel, that Kakao reported more
/// than `retentionDays` ago. Skips rows that another server is deleting.
struct DeleteOldChannelRelations: PostgresStatement {
    static let sql: SQL = """
        DELETE FROM channel_relations
        WHERE (id_type, id, channel_public_id) IN (
            SELECT id_type, id, channel_public_id
            FROM channel_relations
            WHERE (id_type = 'open_id' OR relation = 'BLOCKED')
                AND stored_at < now() - make_interval(days => $1)
            ORDER BY stored_at
            LIMIT $2
            FOR UPDATE SKIP LOCKED
        )
        """

    let retentionDays: Int
    let limit: Int

    var parameters: [PostgresValue] { [.int32(Int32(clamping: retentionDays)), .int64(Int64(limit))] }
}
