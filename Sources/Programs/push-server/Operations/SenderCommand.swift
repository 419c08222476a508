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

    struct Stop: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Stop sending. Requests in flight complete, and nothing more is begun."
        )

        @OptionGroup var options: ServerOptions

        @Option(help: "Why, for the others on call.")
        var reason: String

        @concurrent
        func run() async throws {
            try await options.withServer { server in
                ShownStatus.write(ShownStatus.sender(try await server.stopSender(reason: reason)))
            }
        }
    }

    struct Start: AsyncParsableCommand {
        static let configuration = CommandConfiguration(abstract: "Continue sending.")

        @OptionGroup var options: ServerOptions

        @concurrent
        func run() async throws {
            try await options.withServer { server in
                ShownStatus.write(ShownStatus.sender(try await server.startSender()))
            }
        }
    }
}
