import JSON

/// A message, parsed from the server's JSON. Pure.
struct ShownMessage {
    /// The members in the order in which `show` prints them.
    private static let members = [
        "id", "sender", "state", "delivery", "when_over_quota", "send_at", "expires_at", "created_at", "finished_at",
    ]
    /// The numbers of receivers that `list` prints.
    private static let counts = ["total", "sent", "waiting", "failed", "uncertain"]

    /// The first row of the table that `list` prints.
    static let head = ["message", "sender", "state", "receivers", "sent", "waiting", "failed", "uncertain", "created"]
    /// The first row of the table of receivers.
    static let receiverHead = ["receiver", "state", "reason", "retry at", "remedy"]

    let id: String
    private let json: JSONValue
    private let receivers: JSONObject

    /// - Throws: ``CommandFailure`` if the JSON is not a message, as from another server or version.
    init(_ json: JSONValue) throws {
        guard let id = json["id"]?.string, let receivers = json["receivers"]?.object else {
            throw CommandFailure(
                "The response is not a message in the expected form. Is the server of another version?"
            )
        }
        self.id = Text.printable(id)
        self.json = json
        self.receivers = receivers
    }

    private func count(_ state: String) -> String { Text.grouped(receivers[state]?.integer ?? 0) }

    /// The message as a row of the table that `list` prints.
    var row: [String] {
        ["id", "sender", "state"].map { json.printable($0) } + Self.counts.map(count) + [json.printable("created_at")]
    }

    /// The line below its row; `nil` if there is nothing to say.
    var note: String? {
        guard json["state"]?.string == "scheduled", json["send_at"]?.string != nil else { return nil }
        return "at \(json.printable("send_at"))"
    }

    /// The rows that `show` prints, one for each member and each state of receivers.
    var details: [[String]] {
        let states = receivers.members.filter { $0.value.integer != 0 }.map { state, _ in
            [state == "total" ? "receivers" : "  \(state)", count(state)]
        }
        return json.printableRows(Self.members) + states
    }

    /// Returns a receiver as a row of a table.
    static func row(ofReceiver json: JSONValue) -> [String] {
        let name = json["user_id"]?.string ?? json["uuid"]?.string ?? "me"
        return [Text.printable(name)] + ["state", "reason", "retry_at", "remedy"].map { json.printable($0) }
    }
}
