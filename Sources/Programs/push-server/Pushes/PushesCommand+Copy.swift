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

        @Option(
            help: """
                The time to send the copy, such as "2026-12-01 09:00" in the server's pushes.time_zone, or 2026-11-21T08:15:30Z. \
                (default: now)
                """
        )
        var at: String?

        @Option(help: "The time when unsent batches expire, in the same forms. (default: never)")
        var expires: String?

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
            let copy = try await request(server)
            func create(dryRun: Bool) async throws -> JSONValue {
                var body = copy
                if dryRun { body["dry_run"] = true }
                let timeout = ServerClient.longTimeout
                return try await server.create("\(push.path)/copy", body, idempotencyKey: key, timeout: timeout)
            }
            guard !dryRun else {
                let preview = try await server.times().shown(try await create(dryRun: true))
                for line in DryRun.lines(preview) { Terminal.writeLine(line) }
                return
            }
            if !yes, Terminal.isInteractive {
                let preview = try await create(dryRun: true)
                let times = try await server.timesOfQuestion()
                let rows = ShownPhones.rows(preview) + DryRun.summary(of: copy, preview, times, now: Date())
                for line in Text.table(rows) { Terminal.writeError(line) }
                let question = DryRun.question(times.shown(preview), server: server.url)
                try Terminal.confirm(question, orPrint: "Nothing was sent.")
            }
            let answer: JSONValue
            do {
                answer = try await create(dryRun: false)
            } catch {
                IdempotencyOptions.adviseRetry(after: error, key: key)
                throw error
            }
            try await Send.report(ShownPush(answer), watching: watch, server)
        }

        /// Returns the body of the request, without unset members.
        private func request(_ server: ServerClient) async throws -> JSONObject {
            var body = JSONObject()
            body["name"] = name.map { .string($0) }
            body["send_at"] = try await server.time(at).map { .string($0) }
            body["expires_at"] = try await server.time(expires).map { .string($0) }
            return body
        }
    }
}
