import Endpoints
import FoundationEssentials
import HTTPServer
import HTTPTypes
import Schemas

/// `/v1/pushes/{id}/users` and `/v1/users/{user_id}/pushes`: which users a push was sent to, with which result, and which it did not reach.
struct PushUserRoutes: RouteCollection {
    static let title = "Users of pushes"
    static let operations = [showing, listing, exporting]

    /// The time before now in which the pushes of a user are searched for: 31 days.
    private static let searchedSeconds: TimeInterval = 31 * 86_400

    let store: PushUserStore
    let exports: ExportedUserStore

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
                "The user is not in the push: skipped, left out, or not in its audience. Its export with state=skipped lists those whom it skipped."
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

    // MARK: The users whom a push did not reach

    private static let exported = Field.required("state", Kind<ExportedUsers>.choice, "Which users.")
    private static let causes = Field.optional(
        "cause",
        .chosenCauses,
        "Only users with one of these causes, which belong to the state. Without it, users are left out whom the company itself has left "
            + "out, who have not consented, or who were not sent to because of the night: `excluded`, `without_consent` and `night`."
    )
    private static let format = Field.optional(
        "format",
        Kind<UserListFormat>.choice,
        "The format. Without it, `Accept` decides; without that, it is `csv`."
    )

    private static let exporting = Operation(
        "exportPushUsers",
        .get,
        "/v1/pushes/{id}/users",
        .operator(.export),
        "Exports the users whom a push did not reach, or of whom that is uncertain.",
        path: [PushRoutes.id],
        query: [exported, causes, format],
        answers: [
            .media(
                .ok,
                UserListFormat.allCases.map(\.contentType),
                "One user a line: the id with the cause, Kakao's code and words, and whether the user may have been reached nevertheless; or "
                    + "the id alone, as `putAudience` accepts it."
            )
        ],
        problems: [.notFound, .wrongState, .pushRemoved],
        auditing: .download { .object(try PushRoutes.id($0).lowercased) },
        handler: export
    )

    @Sendable private func export(_ call: Call) async throws -> Response {
        let (id, exported, chosen) = (try PushRoutes.id(call), try call[Self.exported], try call[Self.causes])
        let format = try call[Self.format] ?? UserListFormat(accepted: call.request[.accept]) ?? .csv
        let causes = try Self.causes(chosen, of: exported)
        let push = try await find(id, exported)
        do {
            return try await .export(format.contentType, header: format.header) { [exports] last in
                try await exports.users(exported, of: push, causes, after: last)
            } write: { users, bytes in
                format.write(users, to: &bytes)
            }
        } catch is ExportedUserStore.PushRemoved {
            throw Self.pushRemoved
        }
    }

    /// Returns the causes of the users that a request asks for.
    ///
    /// - Throws: ``Problem`` 400 for a cause that users of this state do not have.
    private static func causes(_ chosen: [UnreachedCause]?, of exported: ExportedUsers) throws -> [UnreachedCause] {
        guard let chosen else { return exported.defaultCauses }
        guard chosen.allSatisfy(exported.causes.contains) else {
            let causes = exported.causes.map(\.rawValue).joined(separator: ", ")
            throw Problem.field(
                Self.causes.name,
                causes.isEmpty ? "absent" : "one or more of \(causes), separated by commas",
                "The state is \(exported.rawValue)."
            )
        }
        return chosen
    }

    /// Returns the push whose users are exported.
    ///
    /// - Throws: ``Problem`` if there is none, or if its users are not known, or not any more.
    private func find(_ id: UUID, _ exported: ExportedUsers) async throws -> ExportedUserStore.Push {
        guard let push = try await exports.find(id) else { throw PushRoutes.notFound }
        guard !push.isRemoved else { throw Self.pushRemoved }
        if exported == .unsent, !push.state.isFinal {
            throw Problem(
                of: .wrongState,
                "The push is in state `\(push.state.rawValue)`: what is not sent yet may still be. Cancel it, or wait for its end."
            )
        }
        if exported != .skipped, push.state.isFinal, !push.isSettled {
            throw Problem(
                of: .wrongState,
                "Requests of the push are still in flight. Try again in 10 seconds.",
                headerFields: [.retryAfter: "10"]
            )
        }
        return push
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
