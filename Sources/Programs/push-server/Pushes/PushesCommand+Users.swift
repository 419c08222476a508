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
        /// The users that the server exports.
        enum State: String, ExpressibleByArgument, CaseIterable {
            case skipped
            case failed
            case unsent
            case uncertain
        }

        /// Why skipped and unsent users were not sent to.
        enum Cause: String, ExpressibleByArgument, CaseIterable {
            case noDevice = "no_device"
            case excluded
            case withoutConsent = "without_consent"
            case canceled
            case expired
            case night
        }

        enum Format: String, ExpressibleByArgument, CaseIterable {
            case csv
            case text
        }

        static let configuration = CommandConfiguration(
            abstract: "Print the users whom a push did not reach, one a line, with the cause.",
            discussion: """
                Without --cause, those are left out whom the push excludes, who have not consented, or who were not sent to because of the \
                night. Requires a key with the scope export. PUT /v1/audiences/{name} accepts the output of --format text, and send \
                --users-file up to 1 MiB of it.
                """
        )

        @OptionGroup var options: ServerOptions
        @OptionGroup var push: PushArgument

        @Option(
            help:
                "Which users: those who were skipped, whose batches failed, were not sent at the push's end, or are uncertain."
        )
        var state: State

        @Option(help: "Only skipped or unsent users with this cause (repeatable).")
        var cause: [Cause] = []

        @Option(help: "With the cause, Kakao's code and words, or the ids alone.")
        var format = Format.csv

        @Option(help: "Why you need them. The audit log keeps it.")
        var reason: String

        func run(on server: ServerClient) async throws {
            let causes = cause.isEmpty ? nil : cause.map(\.rawValue).joined(separator: ",")
            let filters: [ServerClient.Filter] = [
                ("state", state.rawValue), ("cause", causes), ("format", format.rawValue), ("reason", reason),
            ]
            try await server.export("\(push.path)/users", filters, Terminal.write)
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
