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
    /// An array of the users who belong to the audience; `nil` if all do.
    let members: PostgresCell?
    /// The last user, if the page may lack some of that user's phones.
    let cutUser: Int64?
    /// The position of the next page.
    let end: Int64
    let isLast: Bool

    fileprivate init(_ row: PostgresRow) throws {
        let (phones, members, cutUser, end, isLast) = try row.decode(
            PostgresCell.self,
            PostgresCell.self,
            Int64?.self,
            Int64.self,
            Bool.self
        )
        self.phones = phones
        self.members = members.isNull ? nil : members
        self.cutUser = cutUser
        self.end = end
        self.isLast = isLast
    }
}

/// Reads whether the users of a list have phones. The list is given, or stored with a push.
struct ReadListedPhones: PostgresStatement {
    static let sql: SQL = """
        SELECT ARRAY(
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

/// Reads the phones of all users after a given one. The subquery is not flattened, so that PostgreSQL reads the phones
/// once.
struct ReadPhones: PostgresStatement {
    static let sql: SQL = """
        SELECT found, NULL::bigint[], CASE WHEN NOT is_last THEN last END, CASE WHEN is_last THEN last ELSE last - 1 END, is_last
        FROM (
            SELECT found, cardinality(found) < $2 AS is_last, COALESCE(abs(found[cardinality(found)]), $1) AS last
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
                ) AS found
                OFFSET 0
            ) AS phone
        ) AS page
        """

    let after: Int64
    let limit: Int64
    let platforms: [String]

    var parameters: [PostgresValue] { [.int64(after), .int64(limit), .texts(platforms)] }
    static func decode(_ row: PostgresRow) throws -> FoundPhones { try FoundPhones(row) }
}

/// Reads the phones of all users after a given one, and which of these users have a phone with any or all of some tags.
struct ReadTaggedPhones: PostgresStatement {
    static let sql: SQL = """
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
                    ) AS members
                OFFSET 0
            ) AS phone
        ) AS page
        """

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
