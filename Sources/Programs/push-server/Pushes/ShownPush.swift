import Endpoints
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
    /// The numbers of users whom it has left out, each with the reason.
    let leftOut: [String]
    /// The number of users who were not sent to before it was canceled or expired, with that cause; `nil` if there are none.
    let unsent: String?
    /// The number of users who may have been reached.
    let uncertain: String?
    /// `advertising` or `informational`; `nil` if the request did not say.
    let kind: String?
    let createdAt: String
    let createdBy: String?
    let approvedBy: String?
    /// The users, as counted when it was created.
    let countedUsers: Int64?
    let toTesters: Bool
    let sendAt: String?
    let expiresAt: String?
    /// When it expires unless it is approved.
    let approveBefore: String?
    /// When the hours for advertising begin that it waits for.
    let waitsUntil: String?
    /// The pushes that it waits for, since it leaves their users out.
    let waitsFor: [String]
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
        leftOut = DryRun.skipped(json)
        unsent =
            (json["unreached"]?["unsent"]?.object?.members ?? []).lazy.compactMap { cause, count in
                count.integer.flatMap { $0 > 0 ? "\(Text.users($0)) not sent to (\(Text.printable(cause)))" : nil }
            }.first
        uncertain = (json["unreached"]?["uncertain"]?.integer).flatMap {
            $0 > 0 ? "\(Text.users($0)) may have been reached (uncertain)" : nil
        }
        name = json["name"]?.string.map(Text.printable)
        reason = json["reason"]?.string.map(Text.printable)
        awaitsApproval = json["awaits_approval"]?.bool ?? false
        kind = json["kind"]?.string.map(Text.printable)
        createdAt = json.printable("created_at")
        createdBy = json["created_by"]?.string.map(Text.printable)
        approvedBy = json["approved_by"]?.string.map(Text.printable)
        countedUsers = json["counted_users"]?.integer
        toTesters = json["to_testers"]?.bool ?? false
        sendAt = json["send_at"]?.string.map(Text.printable)
        expiresAt = json["expires_at"]?.string.map(Text.printable)
        approveBefore = json["approve_before"]?.string.map(Text.printable)
        waitsUntil = json["waits_until"]?.string.map(Text.printable)
        waitsFor = (json["waits_for"]?.array ?? []).compactMap { $0.string.map(Text.printable) }
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

    /// The users to send to, as far as they are known: before the preparation, those that were counted.
    var knownUsers: Int64 { isUnprepared ? countedUsers ?? 0 : users.total - users.skipped }

    /// Whether none of its users is prepared yet.
    private var isUnprepared: Bool { users.total == 0 && !state.isFinal }

    /// Checks that the state of the push allows an action, before the operator is asked about it.
    func check(_ action: PushEvent) throws {
        if let refusal = state.refusal(of: action, awaitsApproval: awaitsApproval) { throw CommandFailure(refusal) }
    }

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
        let total = isUnprepared ? knownUsers : users.total
        return [id, state.rawValue, kind ?? "", "\(users.sent)/\(total)", createdAt, digest]
    }

    /// The line below its row; `nil` if there is nothing to say. Of a push that waits for an approval, it says who has created it.
    var note: String? {
        let creator = awaitsApproval ? createdBy.map { "by \($0)" } : nil
        let times = [
            approveBefore.map { "expires unless approved before \($0)" }, sendAt.map { "at \($0)" },
            waitsUntil.map { "waits until \($0)" },
            state.isFinal ? nil : expiresAt.map { "expires at \($0)" },
        ]
        // The row has only the users who were sent.
        let outcomes = [("failed", users.failed), ("uncertain", users.uncertain)].map { outcome, count in
            count > 0 ? "\(Text.users(count)) \(outcome)" : nil
        }
        let words = [name.map { "\"\($0)\"" }, creator] + outcomes + times + [firstWords.isEmpty ? nil : firstWords]
        let line = words.compactMap(\.self).joined(separator: ", ")
        return line.isEmpty ? nil : line
    }

    /// Returns the question whether to approve the push.
    ///
    /// - Parameters:
    ///   - json: The JSON of the server that the push was parsed from, with times in UTC.
    ///   - server: The server's address.
    func approvalQuestion(_ json: JSONValue, _ times: ShownTimes, server: String, now: Date) -> String {
        let time = SendingTime(json, waitsUntil: json["waits_until"], needsApproval: false)
        return """
            Kind: \(kind ?? "not given"). Time: \(time.text(times, now: now)). \(DryRun.test(times.shown(json))) \
            Approve this push to \(Text.users(knownUsers)) of \(DryRun.app(json, server: server))?
            """
    }

    /// Returns the rows that say which push it is, before a question.
    ///
    /// - Parameter json: The JSON that the push was parsed from.
    func summary(_ json: JSONValue) -> [[String]] {
        let name = name.map { [["name", $0]] } ?? []
        return name + [["state", state.rawValue]] + ShownPhones.rows(json) + [["users", usersText]]
    }

    /// Returns why nothing of the push is sent at present; `nil` if something is, or if the state says it.
    ///
    /// - Parameters:
    ///   - times: How times are shown. Those of the push are in UTC.
    ///   - now: The present time.
    func standstill(_ times: ShownTimes, now: Date) -> String? {
        switch state {
        case .proposed: return awaitsApproval ? "waits for its approval" : nil
        case .paused, .halted, .done, .canceled, .expired: return nil
        case .scheduled, .preparing, .sending:
            if let waitsUntil { return "waits for its hours until \(times.shown(in: waitsUntil))" }
            if let sendAt, let date = Date(rfc3339: sendAt), date > now {
                return "begins at \(times.shown(in: sendAt))"
            }
            return waitsFor.isEmpty ? nil : "waits for the push \(waitsFor.joined(separator: ", "))"
        }
    }

    /// Returns the rows that `show` prints, one for each property.
    ///
    /// - Parameter json: The JSON that the push was parsed from.
    func details(_ json: JSONValue) -> [[String]] {
        var rows = [["id", id], ["state", state.rawValue]]
        if let name { rows.append(["name", name]) }
        rows.append(["kind", kind ?? "not given"])
        rows += json.printableRows(["created_by"])
        if let approvedBy {
            rows.append(["approved_by", awaitsApproval ? "\(approvedBy), before it grew" : approvedBy])
        }
        rows += json.printableRows(["stopped_by"])
        if let reason { rows.append(["reason", reason]) }
        if awaitsApproval { rows.append(["awaits_approval", "true"]) }
        rows.append(["audience", Self.audience(json["audience"])])
        if toTesters { rows.append(["to_testers", "true"]) }
        if let exclusion = json["except"]?.object {
            rows.append(["except", Text.printable(JSONValue.object(exclusion).description)])
        }
        for push in waitsFor { rows.append(["waits_for", push]) }
        rows += json.printableRows([
            "delivery", "approve_before", "send_at", "waits_until", "expires_at", "created_at", "approved_at",
            "started_at", "finished_at", "estimated_end",
        ])
        if !toTesters {
            rows.append(["last_tested_at", json["last_tested_at"]?.string.map(Text.printable) ?? "never"])
        }
        if let limit = json["users_per_second"]?.integer { rows.append(["users_per_second", String(limit)]) }
        rows.append(["users", usersText])
        if let opened = json["opened"]?.integer, opened > 0 { rows.append(["opened", Text.users(opened)]) }
        for text in leftOut + [unsent, uncertain].compactMap(\.self) { rows.append(["not reached", text]) }
        rows.append(["batches", Self.list(batches)])
        rows += json.printableRows(["message_sha256"])
        rows += ShownPhones.rows(json) + ShownPhones.warnings(json)
        return rows
    }

    /// Returns the audience in one line: the number of users if there are more than ten ids, what was uploaded for this push only, else
    /// the JSON.
    ///
    /// - Parameter json: The audience of a push or of its request.
    static func audience(_ json: JSONValue?) -> String {
        if let ids = json?["uuids"]?.array, ids.count > 10 {
            return Text.users(json?["uuids_total"]?.integer ?? Int64(ids.count))
        }
        if let file = json?["audience"]?.string.flatMap(FileAudienceName.init) { return file.description }
        return Text.printable(json?.description ?? "")
    }

    /// Its users by outcome or, before the preparation, those that were counted.
    private var usersText: String {
        let counted = countedUsers.map { "\($0) counted when it was created" }
        let prepared = isUnprepared ? "none prepared yet" : Self.list(users)
        return [counted, prepared].compactMap(\.self).joined(separator: ", ")
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
