import JSON
import Pushes
import Runtime

/// The request of `POST /v1/pushes`. Pure.
struct PushRequest {
    /// `nil` for the testers of the server's settings.
    let audience: PushAudience?
    var exclusion = PushExclusion()
    /// Kakao's `push_message`.
    let message: JSONValue
    var name: String?
    var kind: PushKind?
    /// The time of sending in RFC 3339, which the server validates.
    var sendAt: String?
    var expiresAt: String?
    var usersPerSecond: Int?
    var delivery: Delivery?
    var skipsUnknown = true
    var isDryRun = false

    /// The request as JSON, without unset members. Equal requests have equal bytes, which `Idempotency-Key` requires.
    var body: [UInt8] {
        var json = JSONWriter()
        json.object { json in
            if let audience { json.member("audience", audience.json) } else { json.member("to_testers", true) }
            if !exclusion.isEmpty { json.member("except", exclusion.json) }
            json.member("message", message)
            if let name { json.member("name", name) }
            if let kind { json.member("kind", kind.rawValue) }
            if let sendAt { json.member("send_at", sendAt) }
            if let expiresAt { json.member("expires_at", expiresAt) }
            if let usersPerSecond { json.member("users_per_second", usersPerSecond) }
            if let delivery { json.member("delivery", delivery.rawValue) }
            if !skipsUnknown { json.member("skip_unknown", false) }
            if isDryRun { json.member("dry_run", true) }
        }
        return json.bytes
    }
}

/// The users of a file with one id per line. Pure.
enum UserFile: Equatable {
    /// The ids of at most ``PushAudience/maximumUsers`` users, which a request may name.
    case few([Int64])
    /// More users, which have to be uploaded as an audience.
    case many

    /// Reads a file of user ids.
    ///
    /// - Throws: ``CommandFailure`` with the first invalid lines, or if the file has no ids.
    init(_ bytes: [UInt8]) throws {
        var lines = UserIDLines()
        var ids: [Int64] = []
        var isMany = false
        let take: (Int64) -> Void = { id in
            if ids.count < PushAudience.maximumUsers { ids.append(id) } else { isMany = true }
        }
        lines.read(bytes, take)
        lines.end(take)
        guard lines.badLines.isEmpty else {
            let numbers = lines.badLines.map(String.init).joined(separator: ", ")
            throw CommandFailure("The first invalid lines: \(numbers). Each line must be \(UserIDLines.allowed).")
        }
        guard !ids.isEmpty else { throw CommandFailure("The file of users contains no user ids.") }
        self = isMany ? .many : .few(ids)
    }
}
