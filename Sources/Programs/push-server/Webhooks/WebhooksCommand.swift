import ArgumentParser
import JSON

struct WebhooksCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "webhooks",
        abstract: "Show, test and repeat the webhooks that the server sends to your backend.",
        discussion: """
            A client of the server's HTTP API. The operator key, with the scope admin, comes from OPERATOR_KEY or a file.
            """,
        subcommands: [Status.self, Test.self, Replay.self, CancelReplays.self]
    )

    struct Status: ServerCommand {
        static let configuration = CommandConfiguration(
            abstract: "Show the endpoint, how far webhooks are delivered, and the latest that it has not accepted.",
            discussion: "Exit code 0: the endpoint accepts webhooks. 2: it does not. 1: the command failed."
        )

        @OptionGroup var options: ServerOptions
        @OptionGroup var output: ObjectOptions

        func run(on server: ServerClient) async throws {
            let webhooks = try await server.get("/v1/webhooks")
            try await output.write(webhooks, of: server, ShownWebhooks.rows)
            guard webhooks["state"] == "delivering" else { throw ExitCode(2) }
        }
    }

    struct Test: ServerCommand {
        static let configuration = CommandConfiguration(
            abstract: "Send a webhook of the type webhook.test, and show the endpoint's response.",
            discussion: "Exit code 0: the endpoint has accepted it. 2: it has not. 1: the command failed."
        )

        @OptionGroup var options: ServerOptions

        func run(on server: ServerClient) async throws {
            let test = try await server.post("/v1/webhooks/test")
            Terminal.writeTable(ShownWebhooks.test(test))
            guard test["delivered"] == true else { throw ExitCode(2) }
        }
    }

    struct Replay: ServerCommand {
        static let configuration = CommandConfiguration(
            abstract: "Replay webhooks in the background: those of a time range, or a single one."
        )

        @OptionGroup var options: ServerOptions

        @Option(help: "Events that were stored since this time, such as 2026-11-21T08:15:30Z.")
        var since: String?

        @Option(help: "Events that were stored before this time. (default: now)")
        var until: String?

        @Option(help: "Only this type, or a prefix such as push.*; repeat it for more. (default: all)")
        var type: [String] = []

        @Option(help: "The webhook-id of a single webhook, in place of a time range.")
        var id: String?

        func run(on server: ServerClient) async throws {
            var body = JSONObject()
            body["id"] = id.map { .string($0) }
            body["since"] = try await server.time(since).map { .string($0) }
            body["until"] = try await server.time(until).map { .string($0) }
            if !type.isEmpty { body["types"] = .array(type.map { .string($0) }) }
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
    /// The number of webhooks that are shown of those that the endpoint has not accepted.
    private static let maximumFailed = 10

    /// - Throws: ``CommandFailure`` if the JSON is not the state of webhooks, as from another server or version.
    static func rows(_ webhooks: JSONValue) throws -> [[String]] {
        guard let state = webhooks["state"]?.string, let sources = webhooks["sources"]?.array,
            let failed = webhooks["items"]?.array
        else {
            throw CommandFailure(
                "The response is not about webhooks in the expected form. Is the server of another version?"
            )
        }
        var rows = [["endpoint", webhooks.printable("endpoint", orElse: "none")], ["state", Text.printable(state)]]
        if webhooks["since"]?.string != nil { rows.append(["  since", webhooks.printable("since")]) }
        if webhooks["last_error"]?.string != nil {
            let error = "\(webhooks.printable("last_error")) at \(webhooks.printable("last_error_at"))"
            rows.append(["  last error", error])
        }
        for source in sources {
            let lag = source["lag_seconds"]?.number?.double ?? 0
            let state = lag > 0 ? "waiting for \(Text.duration(seconds: lag))" : "all delivered"
            rows.append([source.printable("source"), state])
        }
        for replay in webhooks["replays"]?.array ?? [] {
            let range = "from \(replay.printable("since")) to \(replay.printable("until"))"
            rows.append(["replay of \(replay.printable("source"))", range])
        }
        for webhook in failed.prefix(maximumFailed) {
            let attempts = "\(webhook.printable("state")) after \(webhook["attempts"]?.integer ?? 0) attempts"
            rows.append([webhook.printable("id"), "\(attempts): \(webhook.printable("last_error", orElse: "none"))"])
        }
        if failed.count > maximumFailed || webhooks["next"]?.string != nil { rows.append(["…", "more: --json"]) }
        return rows
    }

    /// The rows of a test.
    static func test(_ test: JSONValue) -> [[String]] {
        var rows = [["delivered", test["delivered"] == true ? "yes" : "no"]]
        if let status = test["status"]?.integer { rows.append(["status", "\(status)"]) }
        rows.append(["time", "\(test["milliseconds"]?.integer ?? 0) ms"])
        rows.append(["response", test.printable("text")])
        return rows
    }
}
