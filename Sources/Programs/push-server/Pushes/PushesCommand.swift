import ArgumentParser
import Endpoints
import EventLoop
import FoundationEssentials
import JSON
import Pushes
import Runtime

struct PushesCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "pushes",
        abstract: "Send, watch and control pushes on a running server.",
        discussion: """
            A client of the server's HTTP API. The operator key comes from OPERATOR_KEY or a file. Exit code 1: the command failed, \
            and standard error has the reason.
            """,
        subcommands: [
            Send.self, Copy.self, List.self, Show.self, User.self, Users.self, Watch.self, Approve.self, Reject.self,
            Pause.self,
            Resume.self, Cancel.self, Retry.self,
        ]
    )

    struct Watch: ServerCommand {
        static let configuration = CommandConfiguration(
            abstract: "Show the progress of a push until it has ended.",
            discussion: """
                Exit code 0: the push is done. 1: it was canceled or has expired. 2: it is paused or halted. Ctrl-C stops only the \
                watching, not the push.
                """
        )

        @OptionGroup var options: ServerOptions
        @OptionGroup var push: PushArgument

        func run(on server: ServerClient) async throws {
            try await PushWatcher(server: server, id: push.id).run()
        }
    }

    struct Approve: ServerCommand {
        static let configuration = CommandConfiguration(
            abstract: "Approve a push that another key has created, so that it is sent.",
            discussion: """
                The operator key needs the scope approve. On a terminal, the approval has to be confirmed; elsewhere it needs --yes.
                """
        )

        @OptionGroup var options: ServerOptions
        @OptionGroup var push: PushArgument

        @OptionGroup var confirmation: ConfirmationOptions

        func validate() throws { try confirmation.require(for: "An approval") }

        func run(on server: ServerClient) async throws {
            if confirmation.asks {
                let answer = try await server.get(push.path)
                let times = try await server.timesOfQuestion()
                let shown = times.shown(answer)
                let push = try ShownPush(shown)
                if let approvedBy = push.approvedBy, !push.awaitsApproval, push.state != .canceled {
                    Terminal.writeLine(push.state.rawValue)
                    let approval = "The push was approved by \(approvedBy) at \(shown.printable("approved_at"))."
                    return Terminal.writeError("Nothing was done. \(approval)")
                }
                try push.check(.approve)
                for line in Text.table(push.details(shown)) { Terminal.writeError(line) }
                let question = push.approvalQuestion(answer, times, server: server.url, now: Date())
                try Terminal.confirm(question, orPrint: "Nothing was done.")
            }
            let approved = try await push.control("approve", server)
            if !confirmation.asks { try await server.reportWarnings(of: approved) }
        }
    }

    struct Reject: ServerCommand {
        static let configuration = CommandConfiguration(
            abstract: "Reject a push that waits for an approval: it is canceled.",
            discussion: "The operator key needs the scope approve."
        )

        @OptionGroup var options: ServerOptions
        @OptionGroup var push: PushArgument

        @Option(help: "Why, for the other operators.")
        var reason: String?

        func run(on server: ServerClient) async throws {
            let rejected = try await push.control("reject", server, reason.map { ["reason": .string($0)] })
            if rejected.reason != reason.map({ "Rejected: \($0)" }) ?? "Rejected." {
                Terminal.writeError("Nothing was done. The push was canceled or rejected before.")
            }
        }
    }

    struct Pause: ServerCommand {
        static let configuration = CommandConfiguration(abstract: "Pause a push until it is resumed.")

        @OptionGroup var options: ServerOptions
        @OptionGroup var push: PushArgument

        func run(on server: ServerClient) async throws {
            try await push.control("pause", server)
        }
    }

    struct Resume: ServerCommand {
        static let configuration = CommandConfiguration(
            abstract: "Resume a paused or halted push.",
            discussion: """
                Waits up to 5 seconds for the first result, and prints the state. Exit code 2: the push was halted again.
                """
        )

        /// The time to wait for the first result. Kakao usually answers within a second.
        private static let patience = Duration.seconds(5)
        private static let pollInterval = Duration.milliseconds(200)

        @OptionGroup var options: ServerOptions
        @OptionGroup var push: PushArgument

        func run(on server: ServerClient) async throws {
            let resumed = try ShownPush(try await server.post("\(push.path)/resume"))
            let shown = try await firstResult(after: resumed, server)
            Terminal.writeLine(shown.state.rawValue)
            if shown.state == .halted {
                Terminal.writeError("The push was halted again: \(shown.reason ?? "the reason is unknown")")
                throw ExitCode(2)
            }
            try await server.reportWaiting(of: shown)
            if shown.isBeingSent, shown.waitsUntil == nil, shown.finishedUsers == resumed.finishedUsers {
                Terminal.writeError(
                    """
                    No result is known yet. push-server pushes watch \(shown.id) shows what follows, push-server status whether the \
                    sender sends.
                    """
                )
            }
        }

        /// Returns the push once the outcome of a user is known, or its state is another one, or after some time.
        private func firstResult(after resumed: ShownPush, _ server: ServerClient) async throws -> ShownPush {
            var shown = resumed
            let end = ContinuousClock.now + Self.patience
            while shown.isBeingSent, shown.waitsUntil == nil, shown.finishedUsers == resumed.finishedUsers,
                ContinuousClock.now < end
            {
                try await server.loop.sleep(for: Self.pollInterval)
                do {
                    shown = try ShownPush(try await server.get(push.path))
                } catch let failure as CallFailure where failure.kind == .refused {
                    // The key may resume pushes, and not read them.
                    return shown
                }
            }
            return shown
        }
    }

    struct Cancel: ServerCommand {
        static let configuration = CommandConfiguration(abstract: "Cancel a push for good: the rest is never sent.")

        @OptionGroup var options: ServerOptions
        @OptionGroup var push: PushArgument

        @OptionGroup var confirmation: ConfirmationOptions

        func run(on server: ServerClient) async throws {
            if confirmation.asks {
                if let answer = try await push.read(server) {
                    let shown = try ShownPush(answer)
                    guard shown.state != .canceled else { return Terminal.writeLine(shown.state.rawValue) }
                    try shown.check(.cancel)
                    try await server.writeSummary(answer)
                }
                try Terminal.confirm("Cancel this push for good?", orPrint: "Nothing was done.")
            }
            try await push.control("cancel", server)
        }
    }

    struct Retry: ServerCommand {
        static let configuration = CommandConfiguration(abstract: "Retry the failed batches of a finished push.")

        @OptionGroup var options: ServerOptions
        @OptionGroup var push: PushArgument

        @Flag(help: "Also retry uncertain batches. Their users may receive the push twice.")
        var uncertain = false

        @OptionGroup var confirmation: ConfirmationOptions

        func validate() throws {
            if uncertain { try confirmation.require(for: "--uncertain") }
        }

        func run(on server: ServerClient) async throws {
            if uncertain, confirmation.asks { try await ask(server) }
            try await push.control("retry", server, uncertain ? ["uncertain": true] : nil)
        }

        private func ask(_ server: ServerClient) async throws {
            var users = "the users of uncertain batches"
            if let answer = try await push.read(server) {
                let shown = try ShownPush(answer)
                try shown.check(.retry)
                guard shown.users.uncertain > 0 else {
                    throw CommandFailure("No batch of the push is uncertain: retry failed ones without --uncertain.")
                }
                try await server.writeSummary(answer)
                let failed = shown.users.failed > 0 ? " and \(Text.users(shown.users.failed)) of failed batches" : ""
                users = "\(Text.users(shown.users.uncertain)) of uncertain batches\(failed)"
            }
            let question = "Send again to \(users)? Those of uncertain batches may receive the push twice."
            try Terminal.confirm(question, orPrint: "Nothing was sent.")
        }
    }
}

/// The argument that names a push.
struct PushArgument: ParsableArguments {
    @Argument(help: "The complete id of the push.", transform: parse)
    var id: UUID

    var path: String { "/v1/pushes/\(id.lowercased)" }

    /// Returns the server's JSON of the push; `nil` if the key may control pushes, and not read them.
    func read(_ server: ServerClient) async throws -> JSONValue? {
        do {
            return try await server.get(path)
        } catch let failure as CallFailure where failure.problem == "missing-scope" {
            return nil
        }
    }

    /// Performs an operation on the push, prints its new state, and returns the push.
    ///
    /// - Parameters:
    ///   - control: The last component of the path, such as `pause`.
    ///   - body: A JSON object; `nil` for none.
    @discardableResult
    func control(_ control: String, _ server: ServerClient, _ body: JSONObject? = nil) async throws -> ShownPush {
        let push = try ShownPush(try await server.post("\(path)/\(control)", body))
        Terminal.writeLine(push.state.rawValue)
        return push
    }

    /// Returns the id of a push.
    static func parse(_ text: String) throws -> UUID {
        guard text.utf8.count == 36, let id = UUID(uuidString: text) else {
            throw ValidationError("The id of a push must be a complete UUID, as send and list print it.")
        }
        return id
    }
}

extension AudienceName: ExpressibleByArgument {
    init?(argument: String) { self.init(argument) }
}
extension PushState: ExpressibleByArgument {}
extension BatchState: ExpressibleByArgument {}
extension Delivery: ExpressibleByArgument {}
extension PushKind: ExpressibleByArgument {}
