import ArgumentParser
import JSON

struct AccountsCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "accounts",
        abstract: "List the users whose Kakao tokens the server keeps, and change the key that encrypts the tokens.",
        discussion: """
            list and show are clients of a running server's HTTP API. The operator key, with the scope accounts, comes from \
            OPERATOR_KEY or a file. rotate-key works on the database with the server's settings. No command prints a token.
            """,
        subcommands: [List.self, Show.self, RotateKey.self]
    )

    struct List: ServerCommand {
        static let configuration = CommandConfiguration(abstract: "List accounts in the order of their users.")

        @OptionGroup var options: ServerOptions
        @OptionGroup var list: ListOptions

        @Option(help: "List only accounts in this state: linked, login_required or unlinked.")
        var state: String?

        @Option(help: "List only accounts whose refresh token expires before this time: \(LocalTime.forms).")
        var endsBefore: String?

        func run(on server: ServerClient) async throws {
            let filters = [("state", state), ("ends_before", try await server.time(endsBefore, of: "--ends-before"))]
            try await list.write("/v1/accounts", filters, of: server, head: ShownAccount.head) {
                try ShownAccount($0).row
            }
        }
    }

    struct Show: ServerCommand {
        static let configuration = CommandConfiguration(abstract: "Show the account of a user.")

        @OptionGroup var options: ServerOptions

        @Argument(help: "The user.", transform: UserArgument.parse)
        var userID: Int64

        @OptionGroup var output: ObjectOptions

        func run(on server: ServerClient) async throws {
            let account = try await server.get("/v1/accounts/\(userID)")
            try await output.write(account, of: server) { try ShownAccount($0).details }
        }
    }
}
