import ArgumentParser
import Endpoints
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
            discussion: "The operator key needs the scope approve. On a terminal, the approval has to be confirmed."
        )

        @OptionGroup var options: ServerOptions
        @OptionGroup var push: PushArgument

        @Flag(help: "Approve without the confirmation that is asked for on a terminal.")
        var yes = false

        func run(on server: ServerClient) async throws {
            if !yes, Terminal.isInteractive {
                let answer = try await server.timesOfQuestion().shown(try await server.get(push.path))
                for line in Text.table(try ShownPush(answer).details(answer)) { Terminal.writeError(line) }
                try Terminal.confirm("Approve this push?", orPrint: "Nothing was done.")
            }
            try await push.control("approve", server)
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
            try await push.control("reject", server, reason.map { ["reason": .string($0)] })
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
        static let configuration = CommandConfiguration(abstract: "Resume a paused or halted push.")

        @OptionGroup var options: ServerOptions
        @OptionGroup var push: PushArgument

        func run(on server: ServerClient) async throws {
            try await push.control("resume", server)
        }
    }

    struct Cancel: ServerCommand {
        static let configuration = CommandConfiguration(abstract: "Cancel a push for good: the rest is never sent.")

        @OptionGroup var options: ServerOptions
        @OptionGroup var push: PushArgument

        @Flag(help: "Cancel without the confirmation that is asked for on a terminal.")
        var yes = false

        func run(on server: ServerClient) async throws {
            if !yes, Terminal.isInteractive {
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

        func run(on server: ServerClient) async throws {
            try await push.control("retry", server, uncertain ? ["uncertain": true] : nil)
        }
    }
}

/// The argument that names a push.
struct PushArgument: ParsableArguments {
    @Argument(help: "The complete id of the push.", transform: parse)
    var id: UUID

    var path: String { "/v1/pushes/\(id.lowercased)" }

    /// Performs an operation on the push and prints its new state.
    ///
    /// - Parameters:
    ///   - control: The last component of the path, such as `pause`.
    ///   - body: A JSON object; `nil` for none.
    func control(_ control: String, _ server: ServerClient, _ body: JSONObject? = nil) async throws {
        let push = try ShownPush(try await server.post("\(path)/\(control)", body))
        Terminal.writeLine(push.state.rawValue)
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
