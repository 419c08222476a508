import Endpoints
import FoundationEssentials
import HTTPServer
import HTTPTypes
import Identity
import Schemas
import ServiceKit

/// `/v1/session`: signing in to the operator's page, and out of it.
struct SessionRoutes: RouteCollection {
    static let title = "Sessions"
    static let operations = [starting, showing, ending, listing, endingOther]

    /// Whether operators can sign in.
    let isEnabled: Bool
    let app: ShownApp
    let signIn: SignIn
    let store: OperatorSessionStore

    // MARK: Signing in

    private static let key = Field.required("key", .text(1...200), "An operator key.")

    private static let starting = Operation(
        "createSession",
        .post,
        "/v1/session",
        .operatorPort(
            .limited("An address that keeps sending invalid keys has to wait, as with keys in `Authorization`.")
        ),
        "Signs an operator in to the page: the response sets a cookie, which stands for the key for twelve hours, or until the key is "
            + "deleted.",
        body: .fields([key]),
        answers: [
            .empty(
                .noContent,
                "The operator is signed in.",
                headers: [Answer.Header("Set-Cookie", "The cookie of the session.")]
            )
        ],
        problems: [.unauthorized, .insecurePage, .foreignOrigin, .tooManyBadKeys, .notConfigured],
        auditing: .handler,
        needs: NeededSetting("page.enabled") { $0.isEnabled },
        handler: start
    )

    @Sendable private func start(_ call: Call) async throws -> Response {
        let cookie = try await signIn.start(with: try call[Self.key], call)
        return Self.response(cookie)
    }

    private static func response(_ cookie: String) -> Response {
        var response = Response(.noContent)
        response.headerFields[.setCookie] = cookie
        response.headerFields[.cacheControl] = "no-store"
        return response
    }

    // MARK: Showing

    private static let showing = Operation(
        "getSession",
        .get,
        "/v1/session",
        .operatorWithAny(Scope.allCases),
        "Shows who is signed in: the key of the session or of the request, and what it allows.",
        answers: [.json(.ok, ShownSignIn.shape, "The key.")],
        handler: show
    )

    @Sendable private func show(_ call: Call) async throws -> Response {
        .json(ShownSignIn.shape.json(ShownSignIn(app: app, key: Self.key(of: call))))
    }

    private static func key(of call: Call) -> KeyIdentity {
        guard let key = call.caller.key else { preconditionFailure("only operators are admitted") }
        return key
    }

    // MARK: Signing out

    private static let ending = Operation(
        "deleteSession",
        .delete,
        "/v1/session",
        .operatorWithAny(Scope.allCases),
        "Signs the operator out of the page. Every server rejects the session within a second.",
        answers: [
            .empty(
                .noContent,
                "The operator is signed out.",
                headers: [Answer.Header("Set-Cookie", "Deletes the cookie.")]
            )
        ],
        auditing: .handler,
        handler: end
    )

    @Sendable private func end(_ call: Call) async throws -> Response {
        let key = Self.key(of: call)
        if let id = key.session?.id {
            let record = call.auditRecord(of: .object(id.lowercased))
            _ = try await store.end(id, ofKey: key.id, recording: record)
        }
        return Self.response(SessionCookie.deletion)
    }

    // MARK: The sessions of a key

    private static let listing = Operation(
        "listSessions",
        .get,
        "/v1/sessions",
        .operatorWithAny(Scope.allCases),
        "Lists the sessions of the caller's key.",
        answers: [.json(.ok, ShownSession.listShape, "The sessions, the oldest first: at most 20.")],
        handler: list
    )

    @Sendable private func list(_ call: Call) async throws -> Response {
        .json(ShownSession.listShape.json(try await store.list(ofKey: Self.key(of: call).id)))
    }

    private static let id = Field.path("id", .uuid, "The id of the session.")

    private static let endingOther = Operation(
        "deleteOneSession",
        .delete,
        "/v1/sessions/{id}",
        .operatorWithAny(Scope.allCases),
        "Ends a session of the caller's key, such as one on another device.",
        path: [id],
        answers: [.empty(.noContent, "The session has ended.")],
        problems: [.notFound],
        auditing: .handler,
        handler: endOther
    )

    @Sendable private func endOther(_ call: Call) async throws -> Response {
        let notFound = Problem(of: .notFound, "The key has no such session, or it has ended.")
        let id = try call.identifier(Self.id, orThrow: notFound)
        let record = call.auditRecord(of: .object(id.lowercased))
        guard try await store.end(id, ofKey: Self.key(of: call).id, recording: record) else { throw notFound }
        return Response(.noContent)
    }
}

/// The key of the caller, with the app and the session: the response of `GET /v1/session`.
private struct ShownSignIn: Sendable {
    let app: ShownApp
    let key: KeyIdentity

    static let shape = Shape<ShownSignIn>(
        "SignIn",
        [
            .member("key_id", .uuid, "The id of the key: zeros for the key in the settings.", \.key.id),
            .member("name", .text, "The name of the key.", \.key.name),
            .array("scopes", .choice, "What the key allows.") { $0.key.scopes.sorted { $0.rawValue < $1.rawValue } },
            .member("app", ShownApp.shape.kind, "The app whose users the server reaches.") { $0.app },
            .nullable("session", ShownSession.shape.kind, "The session; null for a request with the key itself.") {
                $0.key.session
            },
        ]
    )
}

/// Sessions as a response shows them.
private enum ShownSession {
    static let shape = Shape<OperatorSession>(
        "Session",
        [
            .member("id", .uuid, "The id of the session.", \.id),
            .member("started_at", .time, "When the key was entered.", \.startedAt),
            .member("ends_at", .time, "When the session ends, unless the key is deleted before.", \.endsAt),
            .member("address", .text, "The address from which the operator has signed in.", \.address),
        ]
    )

    static let listShape = Shape<[OperatorSession]>(
        "Sessions",
        [.array("items", shape.kind, "The sessions.", \.self)]
    )
}
