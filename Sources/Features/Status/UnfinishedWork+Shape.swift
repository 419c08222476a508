import Endpoints
import Runtime
import Schemas

extension UnfinishedWork {
    /// The unfinished pushes, as the status shows them.
    static let pushes = shape(
        "UnfinishedPushes",
        states: ["proposed", "scheduled", "preparing", "sending", "paused", "halted"],
        "The oldest of each state that needs an operator: halted, proposed and paused."
    )

    /// The unfinished KakaoTalk messages, as the status shows them.
    static let messages = shape(
        "UnfinishedMessages",
        states: ["scheduled", "sending"],
        "The oldest with a receiver who waits, such as for the next day's quota."
    )

    private static func shape(_ name: String, states: [String], _ attention: String) -> Shape<UnfinishedWork> {
        let counts = Shape<UnfinishedWork>(
            "\(name)ByState",
            states.map { state -> Shape<UnfinishedWork>.Member in
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

    private static let item = Shape<Item>(
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
