import Postgres

/// The tag of the devices of users who have added one of the company's KakaoTalk channels: the setting `channels.tag`.
///
/// Each statement that stores the tags of a device adds it, or takes it away, so that it stands on devices that are registered later as
/// well. A device that is registered for the first time within the same milliseconds as the user adds the channel gets it with its
/// next registration.
enum ChannelTag {
    /// Returns the tags to store.
    ///
    /// - Parameters:
    ///   - given: The tags that the app or the operator gave.
    ///   - userID: The device's user.
    ///   - tag: The parameter with the tag, which is NULL if there is none.
    static func tags(_ given: SQL, of userID: SQL, _ tag: SQL) -> SQL {
        "CASE WHEN \(tag)::text IS NULL THEN \(given) ELSE tags_with_channel(\(given), \(userID), \(tag)) END"
    }
}

/// Gives the devices of users the tag of those who have added a channel, or takes it from them. Returns the number of devices that have
/// changed.
///
/// The devices are locked first, in the order of their keys as by every statement that changes devices.
struct TagChannelUsers: PostgresStatement {
    static let sql: SQL = """
        WITH held AS (
            SELECT user_id, device_id, push_type
            FROM devices
            WHERE user_id = ANY ($1)
            ORDER BY user_id, device_id, push_type
            FOR UPDATE
        ),
        tagged AS (
            UPDATE devices AS device
            SET tags = tags_with_channel(device.tags, device.user_id, $2)
            FROM held
            WHERE (device.user_id, device.device_id, device.push_type) = (held.user_id, held.device_id, held.push_type)
                AND device.tags <> tags_with_channel(device.tags, device.user_id, $2)
            RETURNING 1
        )
        SELECT count(*)
        FROM tagged
        """

    let userIDs: [Int64]
    let tag: String

    var parameters: [PostgresValue] { [.int64s(userIDs), .text(tag)] }

    static func decode(_ row: PostgresRow) throws -> Int64 { try row.decode(Int64.self) }
}
