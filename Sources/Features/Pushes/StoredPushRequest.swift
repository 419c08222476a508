import FoundationEssentials
import JSON
import KakaoAPI
import Postgres
import Runtime

/// The request that created a push, as it is stored: what a copy of the push has, too.
struct StoredPushRequest: Sendable {
    let name: String?
    let kind: PushKind?
    /// The audience as it is shown.
    let audience: [UInt8]
    /// All users that the request listed; `nil` for another audience.
    let userIDs: [Int64]?
    let toTesters: Bool
    /// `except` as it is shown.
    let exclusion: [UInt8]?
    let message: PushMessage
    let bypass: Bool
    let skipsUnknown: Bool
    let delivery: Delivery
    let usersPerSecond: Int32?
}

extension StoredPushRequest {
    /// Returns the message as it is shown.
    ///
    /// - Parameter kakaoVersion: The version of Kakao's API that the server calls.
    func shownMessage(_ settings: PushSettings, kakaoVersion: PushVersion) -> ShownMessage {
        let object = message.object
        let conditions = PushPreview.Conditions(
            settings,
            kakaoVersion: kakaoVersion,
            format: message.version,
            kind: kind,
            bypass: bypass
        )
        return ShownMessage(json: object.maskingPushTokens, phones: PushPreview(object, conditions).phones)
    }
}

// MARK: Statements

/// Reads the request that created a push.
struct ReadPushRequest: PostgresStatement {
    static let sql: SQL = """
        SELECT name, kind, audience, user_ids, to_testers, exclusion, message, message_version, bypass, platforms <> '{}' OR bypass,
            delivery, users_per_second
        FROM pushes
        WHERE id = $1
        """

    let id: UUID

    var parameters: [PostgresValue] { [.uuid(id)] }

    static func decode(_ row: PostgresRow) throws -> StoredPushRequest {
        try row.decode { column in
            try StoredPushRequest(
                name: column.next(),
                kind: column.next(String?.self).flatMap(PushKind.init(rawValue:)),
                audience: column.next(),
                userIDs: column.next(),
                toTesters: column.next(),
                exclusion: column.next(),
                message: PushMessage(text: column.next(), version: PushVersion(rawValue: column.next()) ?? .v1),
                bypass: column.next(),
                skipsUnknown: column.next(),
                delivery: Delivery(rawValue: column.next()) ?? .atLeastOnce,
                usersPerSecond: column.next()
            )
        }
    }
}
