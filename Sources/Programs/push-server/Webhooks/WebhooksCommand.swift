import ArgumentParser
import JSON

struct WebhooksCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "webhooks",
        abstract: "Show, test and repeat the webhooks that the server sends to your backend.",
        discussion: """
            A client of the server's HTTP API. The operator key comes from OPERATOR_KEY or a file; status and test need the scope \
            operate, the others admin.
            """,
        subcommands: [Status.self, Test.self, Replay.self, CancelReplays.self]
    )

    struct Status: ServerCommand {
        static let configuration = CommandConfiguration(
            abstract: "Show the endpoints, what waits for them, and the latest webhooks that were not accepted.",
            discussion:
                "Exit code 0: all endpoints accept webhooks. 2: one does not, or there is none. 1: the command failed."
        )

        @OptionGroup var options: ServerOptions
        @OptionGroup var output: ObjectOptions

        @Option(help: "Only the endpoint with this name.")
        var endpoint: String?

        func run(on server: ServerClient) async throws {
            let webhooks = try await server.get("/v1/webhooks", [("endpoint", endpoint)])
            try await output.write(webhooks, of: server, ShownWebhooks.rows)
            guard ShownWebhooks.areDelivered(webhooks) else { throw ExitCode(2) }
        }
    }

    struct Test: ServerCommand {
        static let configuration = CommandConfiguration(
            abstract: "Send a webhook of the type webhook.test, and show the endpoint's response.",
            discussion: "Exit code 0: the endpoint has accepted it. 2: it has not. 1: the command failed."
        )

        @OptionGroup var options: ServerOptions

        @Option(help: "The name of the endpoint; required if there are several.")
        var endpoint: String?

        func run(on server: ServerClient) async throws {
            var body = JSONObject()
            body["endpoint"] = endpoint.map { .string($0) }
            let test = try await server.post("/v1/webhooks/test", body)
            Terminal.writeTable(ShownWebhooks.test(test))
            guard test["delivered"] == true else { throw ExitCode(2) }
        }
    }

    struct Replay: ServerCommand {
        static let configuration = CommandConfiguration(
            abstract: "Replay webhooks in the background: those of a time range, or a single one."
        )

        @OptionGroup var options: ServerOptions

        @Option(help: "Webhooks that were stored since this time: \(LocalTime.forms).")
        var since: String?

        @Option(help: "Webhooks that were stored before this time, in the same forms. (default: now)")
        var until: String?

        @Option(help: "Only this type, or a prefix such as push.*; repeat it for more. (default: all)")
        var type: [String] = []

        @Option(help: "Only the endpoint with this name. (default: all)")
        var endpoint: String?

        @Option(help: "The webhook-id of a single webhook, in place of the other options.")
        var id: String?

        func run(on server: ServerClient) async throws {
            var body = JSONObject()
            body["id"] = id.map { .string($0) }
            body["since"] = try await server.time(since, of: "--since").map { .string($0) }
            body["until"] = try await server.time(until, of: "--until").map { .string($0) }
            if !type.isEmpty { body["types"] = .array(type.map { .string($0) }) }
            body["endpoint"] = endpoint.map { .string($0) }
            try await server.post("/v1/webhooks/replay", body)
            Terminal.writeLine("The replay begins.")
        }
    }

    struct CancelReplays: ServerCommand {
        static let configuration = CommandConfiguration(
            abstract: "Cancel the replays of time ranges. Those of single webhooks continue."
        )

        @OptionGroup var options: ServerOptions

        func run(on server: ServerClient) async throws {
            try await server.delete("/v1/webhooks/replay")
            Terminal.writeLine("The replays of time ranges are canceled.")
        }
    }
}

/// Webhooks as rows of a table. Pure.
enum ShownWebhooks {
    /// The number of webhooks that are shown of those that were not accepted.
    private static let maximumUnaccepted = 10
    /// The number of waiting webhooks at which the server stops counting.
    private static let countLimit: Int64 = 10_000

    /// Returns whether there are endpoints, and all that servers still have accept webhooks.
    static func areDelivered(_ webhooks: JSONValue) -> Bool {
        let states = (webhooks["endpoints"]?.array ?? []).map { $0["state"]?.string }.filter { $0 != "removed" }
        return !states.isEmpty && states.allSatisfy { $0 == "delivering" }
    }

    /// - Throws: ``CommandFailure`` if the JSON is not the state of webhooks, as from another server or version.
    static func rows(_ webhooks: JSONValue) throws -> [[String]] {
        guard let endpoints = webhooks["endpoints"]?.array, let unaccepted = webhooks["items"]?.array else {
            throw CommandFailure(
                "The response is not about webhooks in the expected form. Is the server of another version?"
            )
        }
        var rows = endpoints.isEmpty ? [["endpoints", "none"]] : endpoints.flatMap(rows(ofEndpoint:))
        for replay in webhooks["replays"]?.array ?? [] {
            let range = "from \(replay.printable("since")) to \(replay.printable("until"))"
            rows.append(["replay to \(replay.printable("endpoint"))", range])
        }
        for webhook in unaccepted.prefix(maximumUnaccepted) {
            let attempts = "\(webhook.printable("state")) after \(webhook["attempts"]?.integer ?? 0) attempts"
            let error = webhook.printable("last_error", orElse: "none")
            rows.append([webhook.printable("id"), "\(attempts) at \(webhook.printable("endpoint")): \(error)"])
        }
        if unaccepted.count > maximumUnaccepted || webhooks["next"]?.string != nil {
            rows.append(["…", "more: --json"])
        }
        return rows
    }

    private static func rows(ofEndpoint endpoint: JSONValue) -> [[String]] {
        let url = endpoint.printable("url", orElse: "not in the settings of this server")
        let state = "\(endpoint.printable("state")) since \(endpoint.printable("since"))"
        var rows = [[endpoint.printable("name"), url], ["  state", state]]
        if endpoint["last_error"]?.string != nil {
            let error = "\(endpoint.printable("last_error")) at \(endpoint.printable("last_error_at"))"
            rows.append(["  last error", error])
        }
        let pending = endpoint["pending"]?.integer ?? 0
        let count = "\(Text.grouped(pending))\(pending < countLimit ? "" : " or more")"
        let lag = Text.duration(seconds: endpoint["lag_seconds"]?.number?.double ?? 0)
        rows.append(["  waiting", pending == 0 ? "none" : "\(count), the oldest due for \(lag)"])
        return rows
    }

    /// The rows of a test.
    static func test(_ test: JSONValue) -> [[String]] {
        var rows = [
            ["endpoint", test.printable("endpoint")], ["delivered", test["delivered"] == true ? "yes" : "no"],
        ]
        if let status = test["status"]?.integer { rows.append(["status", "\(status)"]) }
        rows.append(["time", "\(test["milliseconds"]?.integer ?? 0) ms"])
        rows.append(["response", test.printable("text")])
        return rows
    }
}
