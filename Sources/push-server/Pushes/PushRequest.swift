internal import JSON
internal import PushService

/// What `POST /v1/pushes` is sent. Pure.
struct PushRequest {
    let audience: PushAudience
    /// Kakao's `push_message`.
    let message: JSONValue
    var name: String?
    /// RFC 3339, as the server reads it.
    var sendAt: String?
    var expiresAt: String?
    var usersPerSecond: Int?
    var delivery: Delivery?
    var skipsUnknown = true
    var isDryRun = false

    /// JSON without what was not given. The same request is the same bytes, which is what `Idempotency-Key` goes by.
    var body: [UInt8] {
        var json = JSONWriter()
        json.object { json in
            json.member("audience", audience.json)
            json.member("message", message)
            if let name { json.member("name", name) }
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

/// The users of a file, one a line. Pure.
enum UserFile: Equatable {
    /// So few that a request may name them.
    case few([Int64])
    /// Have to be uploaded as an audience.
    case many

    /// - Throws: ``CommandFailure`` with the first lines that are no user ids, or when there is none.
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
            throw CommandFailure("The first lines that are wrong: \(numbers). A line must be \(UserIDLines.allowed).")
        }
        guard !ids.isEmpty else { throw CommandFailure("The file of users is empty.") }
        self = isMany ? .many : .few(ids)
    }
}
