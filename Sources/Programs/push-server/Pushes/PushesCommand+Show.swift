import ArgumentParser
import FoundationEssentials
import JSON
import Pushes
import Schemas

extension PushesCommand {
    struct List: AsyncParsableCommand {
        static let configuration = CommandConfiguration(abstract: "List pushes, newest first.")

        @OptionGroup var options: ServerOptions
        @OptionGroup var list: ListOptions

        @Option(help: "List only pushes in this state.")
        var state: PushState?

        @Flag(help: "List only pushes that have not ended.")
        var unfinished = false

        @Option(help: "List only pushes whose name begins like this.")
        var name: String?

        @Option(help: "List only pushes that the operator key with this name created.")
        var createdBy: String?

        @Option(help: "List only pushes created since this time, such as 2026-11-21T08:15:30Z.")
        var since: String?

        @Option(help: "List only pushes created before this time.")
        var until: String?

        @concurrent
        func run() async throws {
            try await options.withServer { server in
                var rows = [["id", "state", "name", "sent/total", "created"]]
                let filters: [ServerClient.Filter] = [
                    ("state", state?.rawValue), ("unfinished", unfinished ? "true" : nil), ("name", name),
                    ("created_by", createdBy), ("since", since), ("until", until),
                ]
                try await server.pushes(filters, limit: list.limit) { pushes in
                    for push in pushes {
                        if list.json {
                            Terminal.writeLine(push.description)
                        } else {
                            rows.append(try ShownPush(push).row)
                        }
                    }
                }
                if !list.json { for line in Text.table(rows) { Terminal.writeLine(line) } }
            }
        }
    }

    struct Show: AsyncParsableCommand {
        /// The batches to show.
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

        static let configuration = CommandConfiguration(abstract: "Show a push and, on request, its batches.")

        @OptionGroup var options: ServerOptions
        @OptionGroup var push: PushArgument

        @Option(defaultAsFlag: Batches.all, help: "Also show all batches or those in one state. Put it after the id.")
        var batches: Batches?

        @Flag(help: "Print the server's JSON in one line; with --batches, only the batches, one per line.")
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
                    // A push may have 100,000 batches, so each page is a separate table.
                    let rows = (isFirst ? [ShownBatch.head] : []) + page.map(ShownBatch.row)
                    if isFirst, !json { Terminal.writeLine("") }
                    for line in json ? page.map(\.description) : Text.table(rows) { Terminal.writeLine(line) }
                    isFirst = false
                }
            }
        }
    }
}
