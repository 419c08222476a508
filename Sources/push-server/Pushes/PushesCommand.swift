internal import ArgumentParser
internal import FoundationEssentials
internal import JSON
internal import PushService

struct PushesCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "pushes",
        abstract: "Send pushes, watch and control them, on a running server.",
        discussion: """
            A client of the server's HTTP API, with an operator's key from OPERATOR_KEY or a file. Exit code 1: it could not be done, \
            and standard error says why.
            """,
        subcommands: [
            Send.self, List.self, Show.self, Watch.self, Pause.self, Resume.self, Cancel.self, Retry.self,
        ]
    )

    struct Watch: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Show how a push goes on, until it has ended.",
            discussion: """
                Exit code 0: it is done. 1: it was canceled or has expired. 2: it is paused or halted. Ctrl-C ends the watching, not \
                the push.
                """
        )

        @OptionGroup var options: ServerOptions
        @OptionGroup var push: PushArgument

        @concurrent
        func run() async throws {
            try await options.withServer { try await PushWatcher(server: $0, id: push.id).run() }
        }
    }

    struct Pause: AsyncParsableCommand {
        static let configuration = CommandConfiguration(abstract: "Send nothing more of a push until it is resumed.")

        @OptionGroup var options: ServerOptions
        @OptionGroup var push: PushArgument

        @concurrent
        func run() async throws {
            try await push.control("pause", options)
        }
    }

    struct Resume: AsyncParsableCommand {
        static let configuration = CommandConfiguration(abstract: "Let a paused or halted push go on.")

        @OptionGroup var options: ServerOptions
        @OptionGroup var push: PushArgument

        @concurrent
        func run() async throws {
            try await push.control("resume", options)
        }
    }

    struct Cancel: AsyncParsableCommand {
        static let configuration = CommandConfiguration(abstract: "Never send anything more of a push.")

        @OptionGroup var options: ServerOptions
        @OptionGroup var push: PushArgument

        @Flag(help: "Do not ask, as is done on a terminal.")
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
        static let configuration = CommandConfiguration(abstract: "Send the failed batches of a finished push again.")

        @OptionGroup var options: ServerOptions
        @OptionGroup var push: PushArgument

        @Flag(help: "Also send uncertain batches again: their users may be reached twice.")
        var uncertain = false

        @concurrent
        func run() async throws {
            let body: JSONValue = ["uncertain": true]
            try await push.control("retry", options, body: uncertain ? body.bytes() : [])
        }
    }
}

/// The push that a command is about.
struct PushArgument: ParsableArguments {
    @Argument(help: "The push's id, whole.", transform: parse)
    var id: UUID

    /// Controls the push and prints its state after that.
    func control(_ control: String, _ options: ServerOptions, body: [UInt8] = []) async throws {
        try await options.withServer { server in
            let push = try ShownPush(try await server.control(id, control, body: body))
            Terminal.writeLine(push.state.rawValue)
        }
    }

    private static func parse(_ text: String) throws -> UUID {
        guard text.utf8.count == 36, let id = UUID(uuidString: text) else {
            throw ValidationError("The id of a push is a whole UUID, as send and list print it.")
        }
        return id
    }
}

extension PushState: ExpressibleByArgument {}
extension BatchState: ExpressibleByArgument {}
extension Delivery: ExpressibleByArgument {}
