import Endpoints
import Runtime
import Schemas

/// Unfinished pushes or messages, as the status shows them.
struct ShownWork: Sendable {
    private let states: [String: Int64]
    private let attention: [UnfinishedWork.Item]

    /// Reads the work. Returns `nil` if there is no source of it, or if the database does not respond.
    init?(_ source: UnfinishedWork.Source?) async {
        guard let work = await source?() else { return nil }
        (states, attention) = (work.states, work.attention)
    }

    /// The unfinished pushes.
    static let pushes = shape(
        "UnfinishedPushes",
        states: ["proposed", "scheduled", "preparing", "sending", "paused", "halted"],
        "The oldest of each state that needs an operator: halted, proposed and paused."
    )

    /// The unfinished KakaoTalk messages.
    static let messages = shape(
        "UnfinishedMessages",
        states: ["scheduled", "sending"],
        "The oldest with a receiver who waits, such as for the next day's quota."
    )

    private static func shape(_ name: String, states: [String], _ attention: String) -> Shape<ShownWork> {
        let counts = Shape<ShownWork>(
            "\(name)ByState",
            states.map { state -> Shape<ShownWork>.Member in
                .member(state, .count, "Those that are `\(state)`.") { $0.states[state] ?? 0 }
            }
        )
        return Shape(
            name,
            [
                .member("states", counts.kind, "Their number in each state, up to \(Backlog.limit).") { $0 },
                .array("attention", item.kind, attention, \.attention),
            ]
        )
    }

    private static let item = Shape<UnfinishedWork.Item>(
        "UnfinishedItem",
        [
            .member("id", .uuid, "Its id.", \.id),
            .nullable("name", .text, "Its name to show.", \.name),
            .member("state", .text, "Its state.", \.state),
            .member("reason", .text, "Why it is not sent.", \.reason),
            .member("remedy", .text, "What to do.", \.remedy),
            .member("created_at", .time, "When it was created.", \.createdAt),
        ]
    )
}
