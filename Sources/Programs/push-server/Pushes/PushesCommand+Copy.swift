import ArgumentParser
import Endpoints
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
            request["send_at"] = try await server.time(at, of: "--at").map { .string($0) }
            request["expires_at"] = try await server.time(expires, of: "--expires").map { .string($0) }
            func copy(dryRun: Bool) async throws -> JSONValue {
                var body = request
                if dryRun { body["dry_run"] = true }
                let timeout = ServerClient.longTimeout
                return try await server.create("\(push.path)/copy", body, idempotencyKey: key, timeout: timeout)
            }
            let answer: JSONValue
            do {
                guard !dryRun else {
                    return try await DryRun.write(try await copy(dryRun: true), of: request, server)
                }
                if confirmation.asks {
                    let result = try await copy(dryRun: true)
                    try await Send.confirm(try await completed(request, server), result, server)
                }
                answer = try await copy(dryRun: false)
            } catch let failure as CallFailure where failure.problem == "not-copyable" {
                throw try await explained(failure, server)
            } catch {
                if !dryRun { IdempotencyOptions.adviseRetry(after: error, key: key) }
                throw error
            }
            try await Send.report(ShownPush(answer), watching: watch, server)
        }

        /// Returns the body of the request with what the copy takes over from the push, if the key may read pushes.
        private func completed(_ request: JSONObject, _ server: ServerClient) async throws -> JSONObject {
            guard let original = try await push.read(server) else { return request }
            var completed = request
            for name in ["name", "audience", "to_testers", "except"] where completed[name] == nil {
                completed[name] = original[name]
            }
            return completed
        }

        /// Returns why the push cannot be copied, in the words of the command.
        private func explained(_ failure: CallFailure, _ server: ServerClient) async throws -> any Error {
            let name = try await push.read(server)?["audience"]?["audience"]?.string
            guard let file = name.flatMap(FileAudienceName.init) else { return failure }
            return CommandFailure(
                """
                The push cannot be copied: its users were \(file.description), which the server has not kept. Send it with the file \
                again: push-server pushes send --users-file. Its message is in push-server pushes show \(push.id.lowercased) --json.
                """
            )
        }
    }
}
