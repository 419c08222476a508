import ArgumentParser
import JSON

struct UsersCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "users",
        abstract: "Look up what a running server sent to a user.",
        discussion: """
            A client of the server's HTTP API. The operator key, with the scope read, comes from OPERATOR_KEY or a file.
            """,
        subcommands: [Pushes.self]
    )

    struct Pushes: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "List the pushes of the last 31 days that a user is in, newest first."
        )

        @OptionGroup var options: ServerOptions
        @OptionGroup var list: ListOptions

        @Argument(help: "The user.", transform: UserArgument.parse)
        var userID: Int64

        @Option(help: "List only pushes created since this time, such as 2026-11-21T08:15:30Z.")
        var since: String?

        @concurrent
        func run() async throws {
            try await options.withServer { server in
                var rows = [ShownPushUser.head]
                try await server.pushes(ofUser: userID, since: since, limit: list.limit) { pushes in
                    for push in pushes {
                        if list.json {
                            Terminal.writeLine(push.description)
                        } else {
                            rows.append(ShownPushUser.row(push))
                        }
                    }
                }
                if !list.json { for line in Text.table(rows) { Terminal.writeLine(line) } }
            }
        }
    }
}
