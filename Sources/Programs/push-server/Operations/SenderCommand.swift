import ArgumentParser
import JSON

struct SenderCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "sender",
        abstract: "Stop and start all pushes and KakaoTalk messages, on all servers.",
        discussion: """
            A client of the server's HTTP API. The operator key, with the scope operate, comes from OPERATOR_KEY or a file. \
            Registrations, relayed calls and Kakao's callbacks continue while the sender is stopped.
            """,
        subcommands: [Stop.self, Start.self]
    )

    struct Stop: ServerCommand {
        static let configuration = CommandConfiguration(
            abstract: "Stop sending. Requests in flight complete, and nothing more is begun."
        )

        @OptionGroup var options: ServerOptions

        @Option(help: "Why, for the others on call.")
        var reason: String

        func run(on server: ServerClient) async throws {
            // A repeated request has no further effect.
            let sender = try await server.retrying {
                try await server.post("/v1/sender/stop", ["reason": .string(reason)])
            }
            try await server.writeTable(sender) { ShownStatus.sender($0) }
        }
    }

    struct Start: ServerCommand {
        static let configuration = CommandConfiguration(abstract: "Continue sending.")

        @OptionGroup var options: ServerOptions

        func run(on server: ServerClient) async throws {
            let sender = try await server.retrying { try await server.post("/v1/sender/start") }
            try await server.writeTable(sender) { ShownStatus.sender($0) }
        }
    }
}
