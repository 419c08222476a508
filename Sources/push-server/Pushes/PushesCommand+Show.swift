internal import ArgumentParser
internal import FoundationEssentials
internal import JSON
internal import PushService

extension PushesCommand {
    struct List: AsyncParsableCommand {
        static let configuration = CommandConfiguration(abstract: "List pushes, the latest first.")

        @OptionGroup var options: ServerOptions

        @Option(help: "Only those in this state.")
        var state: PushState?

        @Option(help: "At most so many.")
        var limit = 100

        @Flag(help: "As JSON, a push a line.")
        var json = false

        func validate() throws {
            guard limit > 0 else { throw ValidationError("--limit is 1 at least.") }
        }

        @concurrent
        func run() async throws {
            try await options.withServer { server in
                var rows = [["id", "state", "name", "sent/total", "created"]]
                try await server.pushes(state: state?.rawValue, limit: limit) { pushes in
                    for push in pushes {
                        if json { Terminal.writeLine(push.description) } else { rows.append(try ShownPush(push).row) }
                    }
                }
                if !json { for line in Text.table(rows) { Terminal.writeLine(line) } }
            }
        }
    }

    struct Show: AsyncParsableCommand {
        /// Which batches are to be shown.
        enum Batches: ExpressibleByArgument, Equatable {
            case all
            case state(BatchState)

            init?(argument: String) {
                guard let state = BatchState(rawValue: argument) else { return nil }
                self = .state(state)
            }

            static var allValueStrings: [String] { BatchState.allCases.map(\.rawValue) }

            var state: BatchState? {
                guard case .state(let state) = self else { return nil }
                return state
            }
        }

        static let configuration = CommandConfiguration(abstract: "Show a push, and its batches.")

        @OptionGroup var options: ServerOptions
        @OptionGroup var push: PushArgument

        @Option(defaultAsFlag: Batches.all, help: "Its batches too, all or those in one state. Give it after the id.")
        var batches: Batches?

        @Flag(help: "As the server's JSON, in a line; with --batches the batches alone, a line each.")
        var json = false

        @concurrent
        func run() async throws {
            try await options.withServer { server in
                if !json || batches == nil {
                    let answer = try await server.push(push.id)
                    let shown = try ShownPush(answer)
                    for line in json ? [answer.description] : Text.table(shown.details(answer)) {
                        Terminal.writeLine(line)
                    }
                }
                guard let batches else { return }
                var isFirst = true
                try await server.batches(of: push.id, state: batches.state?.rawValue) { page in
                    // A push may have 100,000 of them: each page is a table of its own.
                    let rows = (isFirst ? [ShownBatch.head] : []) + page.map(ShownBatch.row)
                    if isFirst, !json { Terminal.writeLine("") }
                    for line in json ? page.map(\.description) : Text.table(rows) { Terminal.writeLine(line) }
                    isFirst = false
                }
            }
        }
    }
}
