import ArgumentParser
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
            Send.self, List.self, Show.self, User.self, Users.self, Watch.self, Approve.self, Reject.self, Pause.self,
            Resume.self, Cancel.self, Retry.self,
        ]
    )

    struct Watch: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Show the progress of a push until it has ended.",
            discussion: """
                Exit code 0: the push is done. 1: it was canceled or has expired. 2: it is paused or halted. Ctrl-C stops only the \
                watching, not the push.
                """
        )

        @OptionGroup var options: ServerOptions
        @OptionGroup var push: PushArgument

        @concurrent
        func run() async throws {
            try await options.withServer { try await PushWatcher(server: $0, id: push.id).run() }
        }
    }

    struct Approve: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Approve a push that another key has created, so that it is sent.",
            discussion: "The operator key needs the scope approve. On a terminal, the approval has to be confirmed."
        )

        @OptionGroup var options: ServerOptions
        @OptionGroup var push: PushArgument

        @Flag(help: "Approve without the confirmation that is asked for on a terminal.")
        var yes = false

        @concurrent
        func run() async throws {
            try await options.withServer { server in
                if !yes, Terminal.isInteractive {
                    let answer = try await server.push(push.id)
                    for line in Text.table(try ShownPush(answer).details(answer)) { Terminal.writeError(line) }
                    guard Terminal.confirms("Approve this push?") else {
                        Terminal.writeError("Nothing was done.")
                        throw ExitCode.failure
                    }
                }
                try await push.control("approve", server)
            }
        }
    }

    struct Reject: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Reject a push that waits for an approval: it is canceled.",
            discussion: "The operator key needs the scope approve."
        )

        @OptionGroup var options: ServerOptions
        @OptionGroup var push: PushArgument

        @Option(help: "Why, for the other operators.")
        var reason: String?

        @concurrent
        func run() async throws {
            let body: JSONValue? = reason.map { ["reason": .string($0)] }
            try await push.control("reject", options, body: body?.bytes() ?? [])
        }
    }

    struct Pause: AsyncParsableCommand {
        static let configuration = CommandConfiguration(abstract: "Pause a push until it is resumed.")

        @OptionGroup var options: ServerOptions
        @OptionGroup var push: PushArgument

        @concurrent
        func run() async throws {
            try await push.control("pause", options)
        }
    }

    struct Resume: AsyncParsableCommand {
        static let configuration = CommandConfiguration(abstract: "Resume a paused or halted push.")

        @OptionGroup var options: ServerOptions
        @OptionGroup var push: PushArgument

        @concurrent
        func run() async throws {
            try await push.control("resume", options)
        }
    }

    struct Cancel: AsyncParsableCommand {
        static let configuration = CommandConfiguration(abstract: "Cancel a push for good: the rest is never sent.")

        @OptionGroup var options: ServerOptions
        @OptionGroup var push: PushArgument

        @Flag(help: "Cancel without the confirmation that is asked for on a terminal.")
        var yes = false

        @concurrent
        func run() async throws {
            guard yes || !Terminal.isInteractive || Terminal.confirms("Cancel this push for good?") else {
                Terminal.writeError("Nothing was done.")
                throw ExitCode.failure
            }
            try await push.control("cancel", options)
        }
    }

    struct Retry: AsyncParsableCommand {
        static let configuration = CommandConfiguration(abstract: "Retry the failed batches of a finished push.")

        @OptionGroup var options: ServerOptions
        @OptionGroup var push: PushArgument

        @Flag(help: "Also retry uncertain batches. Their users may receive the push twice.")
        var uncertain = false

        @concurrent
        func run() async throws {
            let body: JSONValue = ["uncertain": true]
            try await push.control("retry", options, body: uncertain ? body.bytes() : [])
        }
    }
}

/// The argument that names a push.
struct PushArgument: ParsableArguments {
    @Argument(help: "The complete id of the push.", transform: parse)
    var id: UUID

    /// Performs an operation on the push and prints its new state.
    ///
    /// - Parameters:
    ///   - control: The last component of the path, such as `pause`.
    ///   - options: The server to call.
    ///   - body: A JSON object; empty for none.
    func control(_ control: String, _ options: ServerOptions, body: [UInt8] = []) async throws {
        try await options.withServer { try await self.control(control, $0, body: body) }
    }

    /// Performs an operation on the push and prints its new state.
    func control(_ control: String, _ server: ServerClient, body: [UInt8] = []) async throws {
        let push = try ShownPush(try await server.control(id, control, body: body))
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
