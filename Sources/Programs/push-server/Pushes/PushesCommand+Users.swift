import ArgumentParser
import JSON

extension PushesCommand {
    struct User: ServerCommand {
        static let configuration = CommandConfiguration(abstract: "Show the result of a push for one user.")

        @OptionGroup var options: ServerOptions
        @OptionGroup var push: PushArgument

        @Argument(help: "The user.", transform: UserArgument.parse)
        var userID: Int64

        @OptionGroup var output: ObjectOptions

        func run(on server: ServerClient) async throws {
            let user = try await server.get("\(push.path)/users/\(userID)")
            try await output.write(user, of: server, ShownPushUser.details)
        }
    }

    struct Users: ServerCommand {
        /// A state whose users the server exports.
        enum State: String, ExpressibleByArgument, CaseIterable {
            case failed
            case uncertain
        }

        static let configuration = CommandConfiguration(
            abstract: "Print the failed or uncertain users of a push, one a line.",
            discussion: "PUT /v1/audiences/{name} accepts the output, and send --users-file up to 1 MiB of it."
        )

        @OptionGroup var options: ServerOptions
        @OptionGroup var push: PushArgument

        @Option(help: "The state of the users' batches.")
        var state: State

        @Option(help: "Why you need them. The audit log keeps it.")
        var reason: String

        func run(on server: ServerClient) async throws {
            let filters: [ServerClient.Filter] = [("state", state.rawValue), ("reason", reason)]
            Terminal.write(try await server.export("\(push.path)/users", filters))
        }
    }
}

/// A user in a push, from the server's JSON. Pure.
enum ShownPushUser {
    static let head = ["push", "created", "name", "push state", "user state", "Kakao's response"]

    /// Returns a row of the table that `users pushes` prints.
    static func row(_ json: JSONValue) -> [String] {
        ["push_id", "created_at", "name", "push_state", "state"].map { json.printable($0) }
            + [ShownBatch.answer(json)]
    }

    /// Returns the rows that `pushes user` prints, one for each property.
    static func details(_ json: JSONValue) -> [[String]] {
        let numbers = ["batch", "attempts"].map { [$0, json[$0]?.integer.map(String.init) ?? ""] }
        return zip(head, row(json)).map { [$0, $1] } + numbers
            + [["finished", json.printable("finished_at")]]
    }
}
