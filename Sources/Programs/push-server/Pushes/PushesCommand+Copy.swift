import ArgumentParser
import FoundationEssentials
import JSON

extension PushesCommand {
    struct Copy: ServerCommand {
        static let configuration = CommandConfiguration(
            abstract: "Send a push again, as a new one, and print its id.",
            discussion: """
                The copy has the message, the audience and the limits of the push, and goes to the users whom the audience has now. It \
                has none of the push's approval, times and idempotency key. On a terminal, it has to be confirmed.
                """
        )

        @OptionGroup var options: ServerOptions
        @OptionGroup var push: PushArgument

        @Option(help: "The name of the copy. (default: that of the push)")
        var name: String?

        @Flag(help: "Send nothing. Print the numbers of users and requests, and the first requests.")
        var dryRun = false

        @OptionGroup var idempotency: IdempotencyOptions

        @Flag(help: "Show the progress, as watch does.")
        var watch = false

        @Flag(help: "Send without the confirmation that is asked for on a terminal.")
        var yes = false

        func validate() throws {
            guard !watch || !dryRun else { throw ValidationError("--watch cannot be combined with --dry-run.") }
        }

        func run(on server: ServerClient) async throws {
            let key = idempotency.key()
            func copy(dryRun: Bool) async throws -> JSONValue {
                var body = JSONObject()
                body["name"] = name.map { .string($0) }
                if dryRun { body["dry_run"] = true }
                let timeout = ServerClient.longTimeout
                return try await server.create("\(push.path)/copy", body, idempotencyKey: key, timeout: timeout)
            }
            guard !dryRun else {
                for line in DryRun.lines(try await copy(dryRun: true)) { Terminal.writeLine(line) }
                return
            }
            if !yes, Terminal.isInteractive {
                let preview = try await copy(dryRun: true)
                let rows = ShownPhones.rows(preview) + ShownPhones.warnings(preview)
                for line in Text.table(rows) { Terminal.writeError(line) }
                try Terminal.confirm(DryRun.question(preview, server: server.url), orPrint: "Nothing was sent.")
            }
            let answer: JSONValue
            do {
                answer = try await copy(dryRun: false)
            } catch {
                IdempotencyOptions.adviseRetry(after: error, key: key)
                throw error
            }
            try await Send.report(ShownPush(answer), watching: watch, server)
        }
    }
}
