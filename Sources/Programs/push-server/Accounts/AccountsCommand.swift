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

    struct List: AsyncParsableCommand {
        static let configuration = CommandConfiguration(abstract: "List accounts in the order of their users.")

        @OptionGroup var options: ServerOptions
        @OptionGroup var list: ListOptions

        @Option(help: "List only accounts in this state: linked, login_required or unlinked.")
        var state: String?

        @Option(help: "List only accounts whose refresh token expires before this time, such as 2026-11-21T08:15:30Z.")
        var endsBefore: String?

        @concurrent
        func run() async throws {
            try await options.withServer { server in
                var rows = [ShownAccount.head]
                try await server.accounts(state: state, endsBefore: endsBefore, limit: list.limit) { accounts in
                    for account in accounts {
                        let shown = try ShownAccount(account)
                        if list.json { Terminal.writeLine(account.description) } else { rows.append(shown.row) }
                    }
                }
                if !list.json { for line in Text.table(rows) { Terminal.writeLine(line) } }
            }
        }
    }

    struct Show: AsyncParsableCommand {
        static let configuration = CommandConfiguration(abstract: "Show the account of a user.")

        @OptionGroup var options: ServerOptions

        @Argument(help: "The user.", transform: UserArgument.parse)
        var userID: Int64

        @Flag(help: "Print the server's JSON in one line.")
        var json = false

        @concurrent
        func run() async throws {
            try await options.withServer { server in
                let account = try await server.account(userID)
                let shown = try ShownAccount(account)
                for line in json ? [account.description] : Text.table(shown.details) { Terminal.writeLine(line) }
            }
        }
    }
}
