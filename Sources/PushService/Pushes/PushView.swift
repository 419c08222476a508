internal import FoundationEssentials
internal import HTTPServer
internal import JSON
internal import KakaoAPI

// The parsing of pushes from requests, and their JSON in responses.

extension NewPush {
    /// Reads the body of `POST /v1/pushes`.
    ///
    /// - Throws: ``Problem`` for a missing or invalid field.
    init(_ parameters: Parameters) throws {
        try parameters.requireOnly([
            "name", "audience", "message", "send_at", "expires_at", "users_per_second", "delivery", "skip_unknown",
            "dry_run",
        ])
        let message = try parameters.object("message")
        let isV2 = message.has(PushVersion.v2.androidMember)
        guard message.has("for_apns") || isV2 || message.has(PushVersion.v1.androidMember) else {
            throw Problem.field("message", "an object with for_apns, for_gcm or for_fcm, like Kakao's push_message")
        }
        guard !isV2 || !message.has(PushVersion.v1.androidMember) else {
            throw Problem.field("message", "an object with for_gcm or for_fcm, not both")
        }
        self.init(audience: try PushAudience(parameters), message: PushMessage(message, version: isV2 ? .v2 : .v1))
        name = try parameters.optionalText("name", length: 1...200)
        delivery = try parameters.optionalChoice("delivery", of: Delivery.self) ?? .atLeastOnce
        skipsUnknown = try parameters.boolean("skip_unknown", default: true)
        guard skipsUnknown || audience.namesUsers else {
            throw Problem.field("skip_unknown", "true unless the audience is uuids or a stored audience")
        }
        usersPerSecond = try parameters.optionalInteger("users_per_second", in: 1...1_000_000).map(Int32.init)
        sendAt = try parameters.optionalTime("send_at")
        expiresAt = try parameters.optionalTime("expires_at")
        if let expiresAt, expiresAt <= sendAt ?? Date() {
            throw Problem.field("expires_at", sendAt == nil ? "in the future" : "after send_at")
        }
    }
}

extension PushAudience {
    private static let allowed = """
        one of {"uuids":[…]} (1 to \(maximumUsers) user ids), {"audience":"name"}, {"tags_any":[…]}, {"tags_all":[…]} (1 to 50 tags), \
        {"everyone":true}
        """

    /// Reads `audience` of `POST /v1/pushes`.
    fileprivate init(_ parameters: Parameters) throws {
        let object = try parameters.object("audience")
        guard object.members.count == 1, let (name, value) = object.members.first,
            let audience = PushAudience(kind: name, value)
        else { throw Problem.field("audience", Self.allowed) }
        self = audience
    }

    private init?(kind: String, _ value: JSONValue) {
        func tags() -> [String]? { Parameters.texts(value, count: 1...50, length: 1...64) }
        let audience: PushAudience? =
            switch kind {
            case "uuids": Parameters.userIDs(value, count: 1...Self.maximumUsers).map { .users($0) }
            case "audience": value.string.flatMap { AudienceName($0) }.map { .stored($0) }
            case "tags_any": tags().map { .tagsAny($0) }
            case "tags_all": tags().map { .tagsAll($0) }
            case "everyone": value == true ? .everyone : nil
            default: nil
            }
        guard let audience else { return nil }
        self = audience
    }
}

extension PushSummary {
    func json() -> [UInt8] {
        var json = JSONWriter(reservingCapacity: 1024)
        json.object { write(to: &$0) }
        return json.bytes
    }

    func write(to json: inout JSONWriter.Members) {
        json.member("id", id.lowercased)
        json.member("name", name)
        json.member("state", state.rawValue)
        json.member("reason", reason)
        json.member("audience", JSONFragment(audience))
        json.member("delivery", delivery.rawValue)
        json.member("send_at", sendAt?.rfc3339)
        json.member("expires_at", expiresAt?.rfc3339)
        json.member("created_at", createdAt.rfc3339)
        json.member("started_at", startedAt?.rfc3339)
        json.member("finished_at", finishedAt?.rfc3339)
        json.object("users") { users.write(to: &$0) }
        json.object("batches") { batches.write(to: &$0) }
        json.member("users_per_second", usersPerSecond)
        json.member("estimated_end", estimatedEnd?.rfc3339)
    }

    /// The time at which the push ends at its average rate so far.
    ///
    /// `nil` if the push is not being sent, if the rate is unknown, or if the end is more than a year away. Such an
    /// estimate is meaningless: the push has hardly begun, or a clock was set.
    private var estimatedEnd: Date? {
        let finished = users.sent + users.failed + users.uncertain
        guard state == .sending, let startedAt, finished > 0, users.pending > 0 else { return nil }
        let now = Date()
        let remaining = now.timeIntervalSince(startedAt) * Double(users.pending) / Double(finished)
        guard (0...Self.longestEstimate).contains(remaining) else { return nil }
        return now + remaining
    }

    /// The longest time until an estimated end: a year, in seconds.
    private static let longestEstimate = 365 * 86_400.0
}

extension PushCounts {
    fileprivate func write(to json: inout JSONWriter.Members) {
        json.member("total", total)
        json.member("sent", sent)
        json.member("failed", failed)
        json.member("uncertain", uncertain)
        json.member("skipped", skipped)
        json.member("pending", pending)
    }
}

extension BatchSummary {
    func write(to json: inout JSONWriter.Members) {
        json.member("number", number)
        json.member("state", state)
        json.array("uuids") { json in
            for id in userIDs { json.element(String(id)) }
        }
        json.member("attempts", attempts)
        json.member("may_repeat", mayRepeat)
        json.member("kakao_status", kakaoStatus)
        json.member("kakao_code", kakaoCode)
        json.member("kakao_message", kakaoMessage)
        json.member("next_attempt_at", nextAttemptAt?.rfc3339)
        json.member("finished_at", finishedAt?.rfc3339)
    }
}
