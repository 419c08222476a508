import ArgumentParser
import FoundationEssentials
import JSON
import Pushes

extension PushesCommand {
    struct Copy: ServerCommand {
        static let configuration = CommandConfiguration(
            abstract: "Send a push again, as a new one, and print its id.",
            discussion: """
                The copy has the message, the audience and the limits of the push, and goes to the users whom the audience has now. It \
                has none of the push's approval, times and idempotency key. On a terminal, it has to be confirmed; elsewhere it needs \
                --yes, since the command line does not name the recipients.
                """
        )

        @OptionGroup var options: ServerOptions
        @OptionGroup var push: PushArgument

        @Option(help: "The name of the copy. (default: that of the push)")
        var name: String?

        @Option(help: "The kind of the copy. (default: that of the push)")
        var kind: PushKind?

        @Option(help: "The time to send the copy, in the forms of send. (default: now)")
        var at: String?

        @Option(help: "The time when unsent batches expire, in the same forms. (default: never)")
        var expires: String?

        @Flag(help: "Send nothing. Print the numbers of users and requests, and the first requests.")
        var dryRun = false

        @OptionGroup var idempotency: IdempotencyOptions

        @Flag(help: "Show the progress, as watch does.")
        var watch = false

        @OptionGroup var confirmation: ConfirmationOptions

        func validate() throws {
            guard !watch || !dryRun else { throw ValidationError("--watch cannot be combined with --dry-run.") }
            if !dryRun { try confirmation.require(for: "A copy") }
        }

        func run(on server: ServerClient) async throws {
            let key = idempotency.key()
            var request = JSONObject()
            request["name"] = name.map { .string($0) }
            request["kind"] = kind.map { .string($0.rawValue) }
            request["send_at"] = try await server.time(at).map { .string($0) }
            request["expires_at"] = try await server.time(expires).map { .string($0) }
            func copy(dryRun: Bool) async throws -> JSONValue {
                var body = request
                if dryRun { body["dry_run"] = true }
                let timeout = ServerClient.longTimeout
                return try await server.create("\(push.path)/copy", body, idempotencyKey: key, timeout: timeout)
            }
            guard !dryRun else {
                return try await DryRun.write(try await copy(dryRun: true), of: request, server)
            }
            if confirmation.asks {
                try await Send.confirm(request, try await copy(dryRun: true), server)
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
