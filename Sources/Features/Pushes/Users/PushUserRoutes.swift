import Endpoints
import FoundationEssentials
import HTTPServer
import HTTPTypes
import Schemas

/// `/v1/pushes/{id}/users` and `/v1/users/{user_id}/pushes`: which users a push was sent to, with which result.
struct PushUserRoutes: RouteCollection {
    static let title = "Users of pushes"
    static let operations = [showing, listing, exporting]

    /// The time before now in which the pushes of a user are searched for: 31 days.
    private static let searchedSeconds: TimeInterval = 31 * 86_400

    let store: PushUserStore

    // MARK: One user of a push

    private static let userID = Field.path("user_id", .userID, "The user.")

    private static let showing = Operation(
        "getPushUser",
        .get,
        "/v1/pushes/{id}/users/{user_id}",
        .operator(.read),
        "Returns the result of a push for one user.",
        path: [PushRoutes.id, userID],
        answers: [.json(.ok, PushUser.shape, "The user's batch and its result.")],
        problems: [.notFound, .pushRemoved],
        auditing: .lookup { .user(try $0[userID], object: try PushRoutes.id($0).lowercased) },
        handler: show
    )

    @Sendable private func show(_ call: Call) async throws -> Response {
        switch try await store.find(call[Self.userID], in: PushRoutes.id(call)) {
        case .found(let user): return .json(PushUser.shape.json(user))
        case .notInPush(isPrepared: true):
            throw Problem(
                of: .notFound,
                "The user is not in the push: skipped, left out, or not in its audience. The server does not store which."
            )
        case .notInPush(isPrepared: false):
            throw Problem(of: .notFound, "The user is not in the push so far. Its audience is still being prepared.")
        case .pushRemoved: throw Self.pushRemoved
        case .noSuchPush: throw PushRoutes.notFound
        }
    }

    // MARK: The pushes of a user

    private static let since = Field.optional(
        "since",
        .time,
        "Only pushes created since then, of those of the last 31 days."
    )

    private static let listing = Operation(
        "listPushesOfUser",
        .get,
        "/v1/users/{user_id}/pushes",
        .operator(.read),
        "Lists the pushes of the last 31 days that a user is in, the latest first.",
        path: [userID],
        query: [since] + Page<UUID>.fields,
        answers: [
            .page(
                of: PushUser.shape,
                "The pushes with their results for the user. A page may have fewer than `limit` items, or none, although there is a next one."
            )
        ],
        auditing: .lookup { .user(try $0[userID]) },
        handler: list
    )

    @Sendable private func list(_ call: Call) async throws -> Response {
        let page = try Page<UUID>(call)
        let first = Date() - Self.searchedSeconds
        let (pushes, next) = try await store.pushes(
            ofUser: call[Self.userID],
            since: max(call[Self.since] ?? first, first),
            before: page.cursor,
            limit: page.limit
        )
        return Page.response(pushes, PushUser.shape, next: next)
    }

    // MARK: The failed and uncertain users of a push

    /// The states whose users can be exported.
    private static let exportedStates = [BatchState.failed, .uncertain]
    private static let state = Field.required(
        "state",
        .text(oneOf: exportedStates.map(\.rawValue)),
        "The state of the users' batches."
    )

    private static let exporting = Operation(
        "exportPushUsers",
        .get,
        "/v1/pushes/{id}/users",
        .operator(.read),
        "Exports the failed or uncertain users of a push.",
        path: [PushRoutes.id],
        query: [state],
        answers: [
            .media(.ok, ["text/plain"], "One user id a line, in ascending order, as `putAudience` accepts them.")
        ],
        problems: [.notFound, .pushRemoved],
        auditing: .download { .object(try PushRoutes.id($0).lowercased) },
        handler: export
    )

    @Sendable private func export(_ call: Call) async throws -> Response {
        let (id, state) = (try PushRoutes.id(call), try call[Self.state])
        guard let isRemoved = try await store.isRemoved(id) else { throw PushRoutes.notFound }
        guard !isRemoved else { throw Self.pushRemoved }
        return try await .export("text/plain") { [store] last in
            try await store.users(of: id, state, after: last?.batch ?? 0)
        } write: { users, bytes in
            for id in users.ids { bytes += "\(id)\n".utf8 }
        }
    }

    private static var pushRemoved: Problem {
        Problem(
            of: .pushRemoved,
            "The push ended more than `pushes.retention_days` ago: its batches have been deleted."
        )
    }
}

extension ProblemKind {
    fileprivate static let pushRemoved = ProblemKind(
        .gone,
        "push-removed",
        "Retention has deleted the batches of the push."
    )
}
