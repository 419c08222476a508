import FoundationEssentials
import JSON
import Pushes

/// A push, parsed from the server's JSON. Pure.
struct ShownPush: Equatable {
    /// The largest valid number of users or batches, which is more than any push has.
    private static let maximumCount: Int64 = 1 << 53

    let id: String
    let name: String?
    let state: PushState
    let reason: String?
    /// Whether it waits for an approval.
    let awaitsApproval: Bool
    let users: PushCounts
    let batches: PushCounts
    /// `advertising` or `informational`; `nil` if the request did not say.
    let kind: String?
    let createdAt: String
    let sendAt: String?
    /// When the hours for advertising begin that it waits for.
    let waitsUntil: String?
    /// The beginning of what a phone shows.
    let firstWords: String
    /// The first digits of the message's SHA-256, enough to see which pushes have the same message.
    let digest: String
    /// The warnings about its message, as lines.
    let warnings: [String]

    /// - Throws: ``CommandFailure`` if the JSON is not a push, as from another server or version.
    init(_ json: JSONValue) throws {
        guard let id = json["id"]?.string, let state = json["state"]?.string.flatMap(PushState.init(rawValue:)),
            let users = Self.counts(json["users"]), let batches = Self.counts(json["batches"])
        else {
            throw CommandFailure("The response is not a push in the expected form. Is the server of another version?")
        }
        self.id = Text.printable(id)
        self.state = state
        self.users = users
        self.batches = batches
        name = json["name"]?.string.map(Text.printable)
        reason = json["reason"]?.string.map(Text.printable)
        awaitsApproval = json["awaits_approval"]?.bool ?? false
        kind = json["kind"]?.string.map(Text.printable)
        createdAt = json.printable("created_at")
        sendAt = json["send_at"]?.string.map(Text.printable)
        waitsUntil = json["waits_until"]?.string.map(Text.printable)
        firstWords = json.printable("first_words")
        digest = String(json.printable("message_sha256").prefix(8))
        warnings = ShownPhones.warnings(json).map { $0.joined(separator: ": ") }
    }

    private static func counts(_ json: JSONValue?) -> PushCounts? {
        let numbers = ["total", "sent", "failed", "uncertain", "skipped"].compactMap { name in
            json?[name]?.integer.flatMap { (0...maximumCount).contains($0) ? $0 : nil }
        }
        guard numbers.count == 5 else { return nil }
        return PushCounts(
            total: numbers[0],
            sent: numbers[1],
            failed: numbers[2],
            uncertain: numbers[3],
            skipped: numbers[4],
            mayRepeat: json?["may_repeat"]?.integer ?? 0
        )
    }

    var isBeingSent: Bool { state == .preparing || state == .sending }

    /// The users whose outcome is known.
    var finishedUsers: Int64 { users.sent + users.failed + users.uncertain }

    // MARK: Showing

    /// Instructions for a push that waits for an approval.
    var approvalAdvice: String {
        """
        The push waits for an approval with another key than the one that created it: push-server pushes approve \(id)
        To cancel it: push-server pushes cancel \(id)
        """
    }

    /// The first row of the table that `list` prints.
    static let head = ["id", "state", "kind", "sent/total", "created", "hash"]

    /// The push as a row of that table.
    var row: [String] {
        [id, state.rawValue, kind ?? "", "\(users.sent)/\(users.total)", createdAt, digest]
    }

    /// The line below its row; `nil` if there is nothing to say.
    var note: String? {
        let times = [sendAt.map { "at \($0)" }, waitsUntil.map { "waits until \($0)" }]
        let words = [name.map { "\"\($0)\"" }] + times + [firstWords.isEmpty ? nil : firstWords]
        let line = words.compactMap(\.self).joined(separator: ", ")
        return line.isEmpty ? nil : line
    }

    /// Returns the question whether to approve the push.
    ///
    /// - Parameter json: The JSON of the server that the push was parsed from.
    func approvalQuestion(_ json: JSONValue, _ times: ShownTimes, now: Date) -> String {
        let time = SendingTime(sendAt: json["send_at"], waitsUntil: json["waits_until"], needsApproval: false)
        // A push that has grown is prepared.
        let count = state == .proposed ? json["counted_users"]?.integer ?? 0 : users.total - users.skipped
        return """
            Kind: \(kind ?? "not given"). Time: \(time.text(times, now: now)). \
            Approve this push to \(Text.grouped(count)) user\(count == 1 ? "" : "s")?
            """
    }

    /// Returns the rows that `show` prints, one for each property.
    ///
    /// - Parameter json: The JSON that the push was parsed from.
    func details(_ json: JSONValue) -> [[String]] {
        var rows = [["id", id], ["state", state.rawValue]]
        if let name { rows.append(["name", name]) }
        rows.append(["kind", kind ?? "not given"])
        rows += json.printableRows(["created_by", "approved_by", "stopped_by"])
        if let reason { rows.append(["reason", reason]) }
        rows.append(["audience", Self.audience(json["audience"])])
        if json["to_testers"]?.bool == true { rows.append(["to_testers", "true"]) }
        if let counted = json["counted_users"]?.integer { rows.append(["counted_users", String(counted)]) }
        if let exclusion = json["except"]?.object {
            rows.append(["except", Text.printable(JSONValue.object(exclusion).description)])
        }
        for push in json["waits_for"]?.array ?? [] { rows.append(["waits_for", Text.printable(push.string ?? "")]) }
        rows += json.printableRows([
            "delivery", "send_at", "waits_until", "expires_at", "created_at", "approved_at", "started_at",
            "finished_at", "estimated_end", "last_tested_at",
        ])
        if let limit = json["users_per_second"]?.integer { rows.append(["users_per_second", String(limit)]) }
        rows.append(["users", Self.list(users)])
        rows.append(["batches", Self.list(batches)])
        rows += json.printableRows(["message_sha256"])
        rows += ShownPhones.rows(json) + ShownPhones.warnings(json)
        return rows
    }

    /// Returns the audience in one line: the number of users if there are more than ten ids, else the JSON.
    private static func audience(_ json: JSONValue?) -> String {
        if let ids = json?["uuids"]?.array, ids.count > 10 { return "\(ids.count) users" }
        return Text.printable(json?.description ?? "")
    }

    private static func list(_ counts: PushCounts) -> String {
        let repeated = counts.mayRepeat > 0 ? ", \(counts.mayRepeat) possibly reached twice" : ""
        return """
            \(counts.total) in all, \(counts.sent) sent, \(counts.failed) failed, \(counts.uncertain) uncertain, \
            \(counts.skipped) skipped, \(counts.pending) pending\(repeated)
            """
    }
}

/// The table of batches that `show --batches` prints. Pure.
enum ShownBatch {
    static let head = ["batch", "state", "users", "attempts", "Kakao's response"]

    /// Returns a row of the table for a batch.
    static func row(_ json: JSONValue) -> [String] {
        [
            json["number"]?.integer.map(String.init) ?? "", json.printable("state"),
            String(json["uuids"]?.array?.count ?? 0), json["attempts"]?.integer.map(String.init) ?? "",
            answer(json, prefix: "kakao_"),
        ]
    }

    /// Returns Kakao's response to a batch in one line.
    ///
    /// - Parameter prefix: The beginning of the members' names.
    static func answer(_ json: JSONValue, prefix: String = "") -> String {
        let words = [
            json["\(prefix)status"]?.integer.map(String.init), json["\(prefix)code"]?.integer.map(String.init),
            json["\(prefix)message"]?.string.map(Text.printable),
            json["may_repeat"]?.bool == true ? "(may repeat)" : nil,
        ]
        return words.compactMap(\.self).joined(separator: " ")
    }
}
