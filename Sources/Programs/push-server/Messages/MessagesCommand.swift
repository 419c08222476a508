import ArgumentParser
import FoundationEssentials
import JSON

struct MessagesCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "messages",
        abstract: "Send KakaoTalk messages on behalf of users, and show their results.",
        discussion: """
            A client of the server's HTTP API. The operator key, with the scope talk, comes from OPERATOR_KEY or a file. Exit code 1: \
            the command failed, and standard error has the reason.
            """,
        subcommands: [Send.self, List.self, Show.self]
    )

    struct List: AsyncParsableCommand {
        static let configuration = CommandConfiguration(abstract: "List messages, the latest first.")

        @OptionGroup var options: ServerOptions
        @OptionGroup var list: ListOptions

        @Option(help: "List only messages in this state: scheduled, sending, done, canceled or expired.")
        var state: String?

        @Option(help: "List only messages of this sender.", transform: UserArgument.parse)
        var sender: Int64?

        @concurrent
        func run() async throws {
            try await options.withServer { server in
                var rows = [ShownMessage.head]
                try await server.messages(state: state, sender: sender, limit: list.limit) { messages in
                    for message in messages {
                        let shown = try ShownMessage(message)
                        if list.json { Terminal.writeLine(message.description) } else { rows.append(shown.row) }
                    }
                }
                if !list.json { for line in Text.table(rows) { Terminal.writeLine(line) } }
            }
        }
    }

    struct Show: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Show a message, and the receivers whom it has not reached, with the reasons."
        )

        @OptionGroup var options: ServerOptions

        @Argument(help: "The id of the message.", transform: parseID)
        var id: UUID

        @Option(help: "Show the receivers in this state instead of those that were not reached.")
        var state: String?

        @Option(help: "The maximum number of receivers.")
        var limit = 100

        @Flag(help: "Print JSON: the message, then one receiver per line.")
        var json = false

        @concurrent
        func run() async throws {
            try await options.withServer { server in
                let message = try await server.message(id)
                let shown = try ShownMessage(message)
                for line in json ? [message.description] : Text.table(shown.details) { Terminal.writeLine(line) }
                var rows: [[String]] = []
                for state in state.map({ [$0] }) ?? ["failed", "uncertain", "waiting"] {
                    try await server.receivers(of: id, state: state, limit: limit - rows.count) { receivers in
                        for receiver in receivers {
                            if json { Terminal.writeLine(receiver.description) }
                            rows.append(ShownMessage.row(ofReceiver: receiver))
                        }
                    }
                    if rows.count >= limit { break }
                }
                guard !json, !rows.isEmpty else { return }
                Terminal.writeLine("")
                for line in Text.table([ShownMessage.receiverHead] + rows) { Terminal.writeLine(line) }
            }
        }

        private static func parseID(_ text: String) throws -> UUID {
            guard let id = UUID(uuidString: text) else { throw ValidationError("\(text) is not the id of a message.") }
            return id
        }
    }
}
