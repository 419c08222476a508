import ArgumentParser
import Endpoints
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

    struct List: ServerCommand {
        static let configuration = CommandConfiguration(
            abstract: "List messages, the latest first.",
            discussion: "The line below a scheduled message has the time when it is sent."
        )

        @OptionGroup var options: ServerOptions
        @OptionGroup var list: ListOptions

        @Option(help: "List only messages in this state: scheduled, sending, done, canceled or expired.")
        var state: String?

        @Option(help: "List only messages of this sender.", transform: UserArgument.parse)
        var sender: Int64?

        func run(on server: ServerClient) async throws {
            let filters = [("state", state), ("sender", sender.map { String($0) })]
            try await list.write(
                "/v1/messages",
                filters,
                of: server,
                head: ShownMessage.head,
                row: { try ShownMessage($0).row },
                note: { try ShownMessage($0).note }
            )
        }
    }

    struct Show: ServerCommand {
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

        func run(on server: ServerClient) async throws {
            let path = "/v1/messages/\(id.lowercased)"
            let message = try await server.get(path)
            let times = json ? .utc : try await server.times()
            let shown = try ShownMessage(times.shown(message))
            if json { Terminal.writeLine(message.description) } else { Terminal.writeTable(shown.details) }
            var rows: [[String]] = []
            for state in state.map({ [$0] }) ?? ["failed", "uncertain", "waiting"] {
                // In the order of the request.
                try await server.pages("\(path)/receivers", [("state", state)], limit: limit - rows.count) {
                    receivers in
                    if json { for receiver in receivers { Terminal.writeLine(receiver.description) } }
                    rows += receivers.map { ShownMessage.row(ofReceiver: times.shown($0)) }
                }
                if rows.count >= limit { break }
            }
            guard !json, !rows.isEmpty else { return }
            Terminal.writeLine("")
            Terminal.writeTable([ShownMessage.receiverHead] + rows)
        }

        private static func parseID(_ text: String) throws -> UUID {
            guard let id = UUID(uuidString: text) else { throw ValidationError("\(text) is not the id of a message.") }
            return id
        }
    }
}
