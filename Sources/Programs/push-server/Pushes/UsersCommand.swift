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

    struct Pushes: ServerCommand {
        static let configuration = CommandConfiguration(
            abstract: "List the pushes of the last 31 days that a user is in, newest first."
        )

        @OptionGroup var options: ServerOptions
        @OptionGroup var list: ListOptions

        @Argument(help: "The user.", transform: UserArgument.parse)
        var userID: Int64

        @Option(help: "List only pushes created since this time: \(LocalTime.forms).")
        var since: String?

        func run(on server: ServerClient) async throws {
            let path = "/v1/users/\(userID)/pushes"
            let filters = [("since", try await server.time(since, of: "--since"))]
            try await list.write(path, filters, of: server, head: ShownPushUser.head, row: ShownPushUser.row)
        }
    }
}
