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

    struct Status: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Show the endpoint, how far webhooks are delivered, and the latest that it has not accepted.",
            discussion: "Exit code 0: the endpoint accepts webhooks. 2: it does not. 1: the command failed."
        )

        @OptionGroup var options: ServerOptions

        @Flag(help: "Print the server's JSON in one line.")
        var json = false

        @concurrent
        func run() async throws {
            try await options.withServer { server in
                let webhooks = try await server.webhooks()
                if json {
                    Terminal.writeLine(webhooks.description)
                } else {
                    for line in Text.table(try ShownWebhooks.rows(webhooks)) { Terminal.writeLine(line) }
                }
                guard webhooks["state"] == "delivering" else { throw ExitCode(2) }
            }
        }
    }

    struct Test: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Send a webhook of the type webhook.test, and show the endpoint's response.",
            discussion: "Exit code 0: the endpoint has accepted it. 2: it has not. 1: the command failed."
        )

        @OptionGroup var options: ServerOptions

        @concurrent
        func run() async throws {
            try await options.withServer { server in
                let test = try await server.testWebhooks()
                for line in Text.table(ShownWebhooks.test(test)) { Terminal.writeLine(line) }
                guard test["delivered"] == true else { throw ExitCode(2) }
            }
        }
    }

    struct Replay: AsyncParsableCommand {
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

        @concurrent
        func run() async throws {
            try await options.withServer { server in
                var body = JSONObject()
                for (name, value) in [("id", id), ("since", since), ("until", until)] {
                    if let value { body[name] = .string(value) }
                }
                if !type.isEmpty { body["types"] = .array(type.map { .string($0) }) }
                try await server.replayWebhooks(body)
                Terminal.writeLine("The replay begins.")
            }
        }
    }
}

extension WebhooksCommand {
    struct CancelReplays: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Cancel the replays of time ranges. Those of single webhooks continue."
        )

        @OptionGroup var options: ServerOptions

        @concurrent
        func run() async throws {
            try await options.withServer { server in
                try await server.cancelWebhookReplays()
                Terminal.writeLine("The replays of time ranges are canceled.")
            }
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
        var rows = [["endpoint", text(webhooks["endpoint"], "none")], ["state", Text.printable(state)]]
        if webhooks["since"]?.string != nil { rows.append(["  since", text(webhooks["since"])]) }
        if webhooks["last_error"]?.string != nil {
            rows.append(["  last error", "\(text(webhooks["last_error"])) at \(text(webhooks["last_error_at"]))"])
        }
        for source in sources {
            let lag = source["lag_seconds"]?.number?.double ?? 0
            rows.append([
                text(source["source"]), lag > 0 ? "waiting for \(Text.duration(seconds: lag))" : "all delivered",
            ])
        }
        for replay in webhooks["replays"]?.array ?? [] {
            rows.append([
                "replay of \(text(replay["source"]))", "from \(text(replay["since"])) to \(text(replay["until"]))",
            ])
        }
        for webhook in failed.prefix(maximumFailed) {
            let attempts = "\(text(webhook["state"])) after \(webhook["attempts"]?.integer ?? 0) attempts"
            rows.append([text(webhook["id"]), "\(attempts): \(text(webhook["last_error"], "none"))"])
        }
        if failed.count > maximumFailed || webhooks["next"]?.string != nil { rows.append(["…", "more: --json"]) }
        return rows
    }

    /// The rows of a test.
    static func test(_ test: JSONValue) -> [[String]] {
        var rows = [["delivered", test["delivered"] == true ? "yes" : "no"]]
        if let status = test["status"]?.integer { rows.append(["status", "\(status)"]) }
        rows.append(["time", "\(test["milliseconds"]?.integer ?? 0) ms"])
        rows.append(["response", text(test["text"])])
        return rows
    }

    private static func text(_ value: JSONValue?, _ absent: String = "") -> String {
        Text.printable(value?.string ?? absent)
    }
}
