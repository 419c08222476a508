import ArgumentParser
import JSON

struct StatusCommand: ServerCommand {
    static let configuration = CommandConfiguration(
        commandName: "status",
        abstract: "Show whether pushes and messages are sent, and if not, why.",
        discussion: """
            A client of the server's HTTP API. The operator key, with the scope read, comes from OPERATOR_KEY or a file. Exit code 0: \
            all is well. 2: the sender does not send, a push is halted, PostgreSQL or Kakao does not respond, an endpoint accepts no \
            webhooks, or the journal cannot be written or has rejected calls. 1: the command failed.
            """
    )

    @OptionGroup var options: ServerOptions
    @OptionGroup var output: ObjectOptions

    func run(on server: ServerClient) async throws {
        let status = try await server.get("/v1/status")
        try await output.write(status, of: server, ShownStatus.rows)
        guard ShownStatus.isHealthy(status) else { throw ExitCode(2) }
    }
}

extension ServerClient {
    /// Returns the rows that say why nothing is sent at present; none while the sender runs, or if the operator key may not ask.
    func stoppedSender() async -> [[String]] {
        guard let status = try? await get("/v1/status"), let sender = status["sender"],
            sender["state"] != "running" || status["database"]?["up"] == false
        else { return [] }
        return ShownStatus.sender(sender, status["database"])
    }
}

/// The server's status as rows of a table. Pure.
enum ShownStatus {
    /// - Throws: ``CommandFailure`` if the JSON is not a status, as from another server or version.
    static func rows(_ status: JSONValue) throws -> [[String]] {
        guard let sender = status["sender"], sender["state"]?.string != nil else {
            throw CommandFailure("The response is not a status in the expected form. Is the server of another version?")
        }
        return self.sender(sender, status["database"]) + work("pushes", status["pushes"])
            + work("messages", status["messages"])
            + backlog(status["backlog"]) + webhooks(status["webhook_endpoints"]) + journal(status["journal"])
            + database(status["database"]) + kakao(status["kakao"]) + servers(status["servers"])
    }

    /// Returns whether there is nothing to do.
    static func isHealthy(_ status: JSONValue) -> Bool {
        let kakao = status["kakao"]?["state"]?.string
        let journal = ["open", "unverified_open"].map { status["journal"]?[$0] }
        let rejected = status["journal"]?["rejected"]?.integer ?? 0
        let endpoints = (status["webhook_endpoints"]?.array ?? []).map { $0["state"]?.string }
        let halted = ["pushes", "messages"].map { status[$0]?["states"]?["halted"]?.integer ?? 0 }
        return status["sender"]?["state"] == "running" && status["database"]?["up"] == true && halted == [0, 0]
            && !["failing", "unreachable", "refusing", "intercepted"].contains(kakao) && !journal.contains(false)
            && rejected == 0
            && endpoints.allSatisfy { $0 == "delivering" }
    }

    /// The rows of the sender.
    ///
    /// - Parameter database: The state of the database, without which nothing is sent; `nil` in an answer that has none.
    static func sender(_ sender: JSONValue, _ database: JSONValue? = nil) -> [[String]] {
        var state = sender.printable("state")
        if database?["up"] == false { state += "; nothing is sent: PostgreSQL \(self.state(of: database))" }
        var rows = [["sender", state]]
        for (title, name) in [
            ("reason", "reason"), ("remedy", "remedy"), ("since", "stopped_at"), ("by", "stopped_by"),
        ] {
            if let value = sender[name]?.string { rows.append(["  \(title)", Text.printable(value)]) }
        }
        return rows
    }

    /// The rows of what has not ended: the numbers by state, and the oldest that needs an operator or waits, with the reason.
    ///
    /// - Parameter title: `pushes` or `messages`.
    private static func work(_ title: String, _ work: JSONValue?) -> [[String]] {
        guard let states = work?["states"]?.object else { return [[title, "unknown"]] }
        let counts = states.members.compactMap { state, count -> String? in
            guard let count = count.integer, count > 0 else { return nil }
            return "\(Text.grouped(count)) \(Text.printable(state))"
        }
        let rows = [[title, counts.isEmpty ? "none unfinished" : counts.joined(separator: ", ")]]
        return (work?["attention"]?.array ?? []).reduce(into: rows) { rows, item in
            let name = item["name"]?.string.map { " (\(Text.printable($0)))" } ?? ""
            let text = "\(item.printable("id"))\(name), of \(item.printable("created_at"))"
            rows.append(["  oldest \(item.printable("state"))", text])
            rows.append(["    reason", item.printable("reason")])
            rows.append(["    remedy", item.printable("remedy")])
        }
    }

    private static func backlog(_ backlog: JSONValue?) -> [[String]] {
        guard let batches = backlog?["batches"]?.integer else { return [["waiting batches", "unknown"]] }
        let oldest = Text.duration(seconds: seconds(backlog?["oldest_seconds"]))
        return [["waiting batches", Text.grouped(batches) + (batches > 0 ? ", the oldest due for \(oldest)" : "")]]
    }

    /// The rows of the endpoints of webhooks: the number of those that accept them, and each that does not.
    private static func webhooks(_ endpoints: JSONValue?) -> [[String]] {
        let endpoints = endpoints?.array ?? []
        guard !endpoints.isEmpty else { return [] }
        let others = endpoints.filter { $0["state"] != "delivering" }
        let rows = [["webhooks", "\(endpoints.count - others.count) of \(endpoints.count) endpoints accept them"]]
        return others.reduce(into: rows) { rows, endpoint in
            let lag = Text.duration(seconds: seconds(endpoint["lag_seconds"]))
            let state = "\(endpoint.printable("state")) since \(endpoint.printable("since")), the oldest due for \(lag)"
            rows.append(["  \(endpoint.printable("name"))", state])
            if let error = endpoint["last_error"]?.string { rows.append(["    reason", Text.printable(error)]) }
        }
    }

    private static func journal(_ journal: JSONValue?) -> [[String]] {
        guard let journal, journal.object != nil else { return [["journal", "none"]] }
        let records = journal["records"]?.integer ?? 0
        let rejected = journal["rejected"]?.integer ?? 0
        var parts = [journal["open"] == true ? "open" : "closed: calls from Kakao may be lost"]
        parts.append("\(Text.count(records, "call")) wait\(records == 1 ? "s" : "")")
        if records > 0 {
            parts.append("the oldest for \(Text.duration(seconds: seconds(journal["oldest_seconds"])))")
        }
        if rejected > 0 { parts.append("\(Text.grouped(rejected)) rejected (push-server journal show)") }
        if journal["unverified_open"] == false { parts.append("unverified/ closed: account events may be lost") }
        return [["journal", parts.joined(separator: ", ")]]
    }

    private static func database(_ database: JSONValue?) -> [[String]] {
        let waiting = database?["waiting"]?.integer ?? 0
        let state = state(of: database)
        let waits = (database?["waits"]?.array ?? []).map { wait in
            let sessions = wait["sessions"]?.integer ?? 0
            let time = Text.duration(seconds: seconds(wait["seconds"]))
            return [
                "  waits for",
                "\(wait.printable("event")) in \(Text.count(sessions, "session")), for up to \(time)",
            ]
        }
        return [
            [
                "PostgreSQL",
                waiting > 0 ? "\(state), \(Text.count(waiting, "statement")) wait\(waiting == 1 ? "s" : "")" : state,
            ]
        ] + waits
            + replica(database?["replica"])
    }

    private static func state(of database: JSONValue?) -> String {
        switch database?["state"]?.string {
        case "read_only": "is read-only"
        case "not_committing": "does not commit"
        default: database?["up"] == true ? "up" : "does not respond"
        }
    }

    private static func replica(_ replica: JSONValue?) -> [[String]] {
        guard let replica, replica.object != nil else { return [] }
        let state =
            switch replica["state"]?.string {
            case "ok": "is read"
            case "behind": "is not read"
            default: "cannot be read"
            }
        guard replica["lag_seconds"]?.number != nil else { return [["  replica", state]] }
        return [["  replica", "\(state), \(Text.duration(seconds: seconds(replica["lag_seconds"]))) behind"]]
    }

    private static func kakao(_ kakao: JSONValue?) -> [[String]] {
        guard let kakao else { return [] }
        var rows = [["Kakao", kakao.printable("state")]]
        if let reason = kakao["reason"]?.string { rows.append(["  reason", Text.printable(reason)]) }
        let calls = kakao["calls"]?.integer ?? 0
        var recent = "\(Text.grouped(calls)) in 5 min"
        if calls > 0 {
            recent += ", \(Text.grouped(kakao["failed_calls"]?.integer ?? 0)) failed"
            recent += ", \(kakao["mean_milliseconds"]?.integer ?? 0) ms on average"
        }
        rows.append(["  calls", recent])
        if let error = kakao["last_error"]?.string {
            rows.append(["  last error", "\(Text.printable(error)) at \(kakao.printable("last_error_at"))"])
        }
        if let response = kakao["foreign_response"], response.object != nil {
            let parts = ["content_type", "server", "via", "text"].compactMap { response[$0]?.string }.filter {
                !$0.isEmpty
            }
            let text = (["\(response.printable("call")): \(response["status"]?.integer ?? 0)"] + parts).joined(
                separator: ", "
            )
            rows.append(["  not Kakao's", "\(Text.printable(text)) at \(response.printable("at"))"])
        }
        if let calls = kakao["calls_this_month"]?.integer {
            let quota = kakao["calls_per_month"]?.integer ?? 0
            rows.append(["  this month", "\(Text.grouped(calls)) of \(Text.grouped(quota))"])
        }
        return rows
    }

    private static func servers(_ servers: JSONValue?) -> [[String]] {
        (servers?.array ?? []).enumerated().map { index, server in
            let uptime = Text.duration(seconds: seconds(server["uptime_seconds"]))
            let text = "\(server.printable("host")) \(server.printable("version")), up for \(uptime)"
            return [index == 0 ? "servers" : "", text]
        }
    }

    private static func seconds(_ value: JSONValue?) -> Double { value?.number?.double ?? 0 }
}
