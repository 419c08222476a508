import KakaoAPI
import Postgres
import Runtime

// Pushes to users whose registrations or removals of devices Kakao has not confirmed yet. Kakao sends to the devices that it knows: a new
// one is not reached, and a removed one still is. Only a few named users are looked up; a push to many is rarely sent in the second after a
// registration.

extension PushWarning {
    static let pendingDevices = PushWarning(
        .pendingDevices,
        nil,
        "Kakao has yet to confirm a registration or a removal of a device of these users: the push may miss a new device, and reach a "
            + "removed one. Send it later with POST /v1/pushes and `send_at`, or again when GET /v1/devices shows no device as `pending`."
    )
}

/// Finds out whether Kakao has not confirmed all changes of some users' devices.
struct FindPendingDevices: PostgresStatement {
    /// Finds a device of `item.user_id` with an unconfirmed change. A renewal does not count: Kakao has the token.
    ///
    /// The comparison is `<>`, so that the planner looks a user up by the primary key. It would read all of `devices_unsettled` otherwise,
    /// which is long after an outage.
    static let ofItem: SQL = """
        SELECT 1
        FROM devices
        WHERE devices.user_id = item.user_id
            AND kakao_revision <> revision
            AND renewal_revision IS DISTINCT FROM revision
        """

    static let sql: SQL = """
        SELECT EXISTS (
            SELECT 1
            FROM unnest($1) AS item (user_id)
            WHERE EXISTS (\(ofItem))
        )
        """

    let userIDs: [Int64]

    var parameters: [PostgresValue] { [.int64s(userIDs)] }
    static func decode(_ row: PostgresRow) throws -> Bool { try row.decode(Bool.self) }
}

extension PushReads {
    /// Returns whether a push is sent at once, to a few users, and Kakao has not confirmed all changes of their devices.
    func hasPendingDevices(_ push: NewPush) async throws -> Bool {
        guard case .users(let ids) = push.audience, ids.count <= SendPush.maximumUsers, push.times.sendAt == nil else {
            return false
        }
        return try await pool.read(FindPendingDevices(userIDs: ids)).first ?? false
    }
}
