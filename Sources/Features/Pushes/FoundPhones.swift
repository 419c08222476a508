import FoundationEssentials
import Postgres

// The statements that read the pages of an audience (``AudiencePage``). A phone is a stored device that is not withdrawn.
//
// A page begins at a key, not at an offset, so that the last page of millions of users costs as much as the first. It
// is bounded by the rows read, not by the rows found. The statements do not group phones by user, which would cost
// PostgreSQL twice as much as reading them.

/// A page of an audience, as the statements below return it.
struct FoundPhones: Sendable {
    /// An array of the users' ids, one for each phone, negative for a phone that the message does not address.
    let phones: PostgresCell
    /// Arrays of the users of the audience, in ascending order over all of them; `nil` for everyone.
    let members: [PostgresCell]?
    /// The last user, if the page may lack some of that user's phones.
    private(set) var cutUser: Int64?
    /// The position of the next page.
    private(set) var end: Int64
    let isLast: Bool
}

extension FoundPhones {
    /// Ignores further phones of the user who was cut off: the next page begins after that user.
    mutating func skipCutUser() {
        end += 1
        cutUser = nil
    }

    fileprivate init(_ row: PostgresRow) throws {
        self = try row.decode { column in
            let phones = try column.next(PostgresCell.self)
            let members = try column.next(PostgresCell.self)
            return try FoundPhones(
                phones: phones,
                members: members.isNull ? nil : [members],
                cutUser: column.next(),
                end: column.next(),
                isLast: column.next()
            )
        }
    }
}

/// Selects the id of the user `item`, negative without a phone of one of the push types `$3`. Without push types, no phone is needed.
private let listedUser: SQL = """
    SELECT CASE
            WHEN cardinality($3) = 0
                OR EXISTS (
                    SELECT 1
                    FROM devices
                    WHERE devices.user_id = item.user_id
                        AND NOT withdrawn
                        AND push_type = ANY ($3)
                )
                THEN item.user_id
            ELSE -item.user_id
        END
    """

/// Returns a query of up to `$2` phones of the users after `$1`, for the push types `$3`. The subquery is not flattened, so that
/// PostgreSQL reads the phones once.
///
/// - Parameter members: An array of those users of these phones who belong to the audience.
private func phonesOfAllUsers(members: SQL) -> SQL {
    """
    SELECT found, members, CASE WHEN NOT is_last THEN last END, CASE WHEN is_last THEN last ELSE last - 1 END, is_last
    FROM (
        SELECT found, members, cardinality(found) < $2 AS is_last, COALESCE(abs(found[cardinality(found)]), $1) AS last
        FROM (
            SELECT ARRAY(
                    SELECT CASE
                            WHEN CASE push_type
                                WHEN 'apns' THEN (SELECT cardinality($3) = 0 OR 'apns' = ANY ($3))
                                WHEN 'fcm' THEN (SELECT cardinality($3) = 0 OR 'fcm' = ANY ($3))
                            END
                                THEN user_id
                            ELSE -user_id
                        END
                    FROM devices
                    WHERE user_id > $1
                        AND NOT withdrawn
                    ORDER BY user_id
                    LIMIT $2
                ) AS found,
                \(members) AS members
            OFFSET 0
        ) AS phone
    ) AS page
    """
}

/// Reads whether the users of a list have phones. The list is given, or stored with a push.
struct ReadListedPhones: PostgresStatement {
    static let sql: SQL = """
        SELECT ARRAY(
            \(listedUser)
            FROM unnest(list.user_ids) WITH ORDINALITY AS item (user_id, place)
            WHERE item.place > $1
                AND item.place <= $1 + $2
        ),
        NULL::bigint[],
        NULL::bigint,
        $1 + $2,
        $1 + $2 >= cardinality(list.user_ids)
        FROM (SELECT COALESCE($4::bigint[], (SELECT user_ids FROM pushes WHERE id = $5)) AS user_ids OFFSET 0) AS list
        """

    let after: Int64
    let limit: Int64
    let platforms: [String]
    let userIDs: [Int64]?
    let pushID: UUID?

    var parameters: [PostgresValue] {
        [.int64(after), .int64(limit), .texts(platforms), .int64s(userIDs), .uuid(pushID)]
    }

    static func decode(_ row: PostgresRow) throws -> FoundPhones { try FoundPhones(row) }
}

/// Reads whether the users of parts of a stored audience have phones, user by user.
struct ReadPartPhones: PostgresStatement {
    static let sql: SQL = """
        SELECT ARRAY(
            \(listedUser)
            FROM audience_parts AS part
            CROSS JOIN unnest(part.user_ids) AS item (user_id)
            WHERE part.parts_id = $4
                AND part.number > $1
                AND part.number <= $1 + $2
            ORDER BY part.number, item.user_id
        ),
        NULL::bigint[],
        NULL::bigint,
        $1 + $2,
        NOT EXISTS (
            SELECT 1
            FROM audience_parts
            WHERE parts_id = $4
                AND number > $1 + $2
        )
        """

    let after: Int64
    let limit: Int64
    let platforms: [String]
    let partsID: UUID

    var parameters: [PostgresValue] { [.int64(after), .int64(limit), .texts(platforms), .uuid(partsID)] }
    static func decode(_ row: PostgresRow) throws -> FoundPhones { try FoundPhones(row) }
}

/// Lists the users of parts of a stored audience, an array for each part.
struct ListAudienceParts: PostgresStatement {
    static let sql: SQL = """
        SELECT user_ids
        FROM audience_parts
        WHERE parts_id = $1
            AND number > $2
            AND number <= $2 + $3
        ORDER BY number
        """

    let partsID: UUID
    let after: Int64
    let limit: Int64

    var parameters: [PostgresValue] { [.uuid(partsID), .int64(after), .int64(limit)] }
    static func decode(_ row: PostgresRow) throws -> PostgresCell { try row.decode(PostgresCell.self) }
}

/// Reads all phones of a range of users. Returns no row if there are `limit` or more.
struct ReadPhoneRange: PostgresStatement {
    static let sql: SQL = """
        SELECT found, NOT EXISTS (SELECT 1 FROM audience_parts WHERE parts_id = $1 AND number > $2)
        FROM (
            SELECT ARRAY(
                SELECT CASE WHEN push_type = ANY ($5) THEN user_id ELSE -user_id END
                FROM devices
                WHERE user_id BETWEEN $3 AND $4
                    AND NOT withdrawn
                ORDER BY user_id
                LIMIT $6
            ) AS found
            OFFSET 0
        ) AS phones
        WHERE cardinality(found) < $6
        """

    let partsID: UUID
    /// The last part of the page.
    let end: Int64
    let users: ClosedRange<Int64>
    let platforms: [String]
    let limit: Int64

    var parameters: [PostgresValue] {
        [
            .uuid(partsID), .int64(end), .int64(users.lowerBound), .int64(users.upperBound), .texts(platforms),
            .int64(limit),
        ]
    }

    /// Decodes the phones, and whether there are no further parts.
    static func decode(_ row: PostgresRow) throws -> (phones: PostgresCell, isLast: Bool) {
        try row.decode(PostgresCell.self, Bool.self)
    }
}

/// Reads the phones of all users after a given one.
struct ReadPhones: PostgresStatement {
    static let sql = phonesOfAllUsers(members: "NULL::bigint[]")

    let after: Int64
    let limit: Int64
    let platforms: [String]

    var parameters: [PostgresValue] { [.int64(after), .int64(limit), .texts(platforms)] }
    static func decode(_ row: PostgresRow) throws -> FoundPhones { try FoundPhones(row) }
}

/// Reads the phones of all users after a given one, and which of these users have a phone with any or all of some tags.
struct ReadTaggedPhones: PostgresStatement {
    static let sql = phonesOfAllUsers(
        members: """
            ARRAY(
                SELECT user_id
                FROM (
                    SELECT user_id, tags
                    FROM devices
                    WHERE user_id > $1
                        AND NOT withdrawn
                    ORDER BY user_id
                    LIMIT $2
                ) AS phone
                WHERE CASE WHEN $5 THEN tags @> $4 ELSE tags && $4 END
            )
            """
    )

    let after: Int64
    let limit: Int64
    let platforms: [String]
    let tags: [String]
    /// Whether a phone needs all of the tags, not only one.
    let isAll: Bool

    var parameters: [PostgresValue] {
        [.int64(after), .int64(limit), .texts(platforms), .texts(tags), .bool(isAll)]
    }

    static func decode(_ row: PostgresRow) throws -> FoundPhones { try FoundPhones(row) }
}
