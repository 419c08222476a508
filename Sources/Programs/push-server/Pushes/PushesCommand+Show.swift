import ArgumentParser
import JSON
import Pushes

extension PushesCommand {
    struct List: ServerCommand {
        static let configuration = CommandConfiguration(
            abstract: "List pushes, newest first.",
            discussion: "The line below a push has its name, its times if it has any, and the beginning of its message."
        )

        /// The maximum number of pushes in a response. If each names as many users as it may, the response has at most
        /// ``JSONValue/maximumBytes``.
        private static let largestPage = 50

        @OptionGroup var options: ServerOptions
        @OptionGroup var list: ListOptions

        @Option(help: "List only pushes in this state. With proposed, also halted pushes that wait for an approval.")
        var state: PushState?

        @Flag(help: "List only pushes that have not ended.")
        var unfinished = false

        @Option(help: "List only pushes whose name begins like this.")
        var name: String?

        @Option(help: "List only pushes that the operator key with this name created.")
        var createdBy: String?

        @Option(help: "List only pushes created since this time: \(LocalTime.forms).")
        var since: String?

        @Option(help: "List only pushes created before this time, in the same forms.")
        var until: String?

        func run(on server: ServerClient) async throws {
            let filters: [ServerClient.Filter] = [
                ("state", state?.rawValue), ("unfinished", unfinished ? "true" : nil), ("name", name),
                ("created_by", createdBy), ("since", try await server.time(since, of: "--since")),
                ("until", try await server.time(until, of: "--until")),
            ]
            try await list.write(
                "/v1/pushes",
                filters,
                of: server,
                head: ShownPush.head,
                largestPage: Self.largestPage,
                row: { try ShownPush($0).row },
                note: { try ShownPush($0).note }
            )
        }
    }

    struct Show: ServerCommand {
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

        static let configuration = CommandConfiguration(
            abstract: "Show a push, why its first failed batch failed and, on request, its batches."
        )

        @OptionGroup var options: ServerOptions
        @OptionGroup var push: PushArgument

        @Option(defaultAsFlag: Batches.all, help: "Also show all batches or those in one state. Put it after the id.")
        var batches: Batches?

        @Flag(help: "Print the server's JSON in one line; with --batches, only the batches, one per line.")
        var json = false

        func run(on server: ServerClient) async throws {
            if !json || batches == nil {
                let answer = try await server.get(push.path)
                if json {
                    Terminal.writeLine(answer.description)
                } else {
                    let failure = try await server.failure(of: ShownPush(answer))
                    try await server.writeTable(answer) { shown in
                        try ShownPush(shown).details(shown) + (failure.map { [["failure", $0.answer]] } ?? [])
                    }
                }
            }
            guard let batches else { return }
            var isFirst = true
            try await server.pages("\(push.path)/batches", [("state", batches.state?.rawValue)]) { page in
                // A push may have 100,000 batches, so each page is a separate table.
                let rows = (isFirst ? [ShownBatch.head] : []) + page.map(ShownBatch.row)
                if isFirst, !json { Terminal.writeLine("") }
                for line in json ? page.map(\.description) : Text.table(rows) { Terminal.writeLine(line) }
                isFirst = false
            }
        }
    }
}
