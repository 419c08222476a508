import Endpoints
import EventLoop
import FoundationEssentials
import HTTPServer
import HTTPTypes
import Postgres
import Runtime
import Schemas

/// `/v1/webhooks`: the state of the endpoints, their test, and the repetition of webhooks.
struct WebhookRoutes: RouteCollection {
    static let title = "Webhooks"
    static let operations = [showing, replaying, cancelingReplays, testing]

    let endpoints: WebhookEndpoints
    let store: WebhookStore
    let sender: WebhookSender
    let notices: WebhookNotices
    let replays: WebhookReplays

    /// - Throws: ``Problem`` 409 without an endpoint.
    private func requireEndpoints() throws {
        guard !endpoints.isEmpty else {
            throw Problem(
                of: .notConfigured,
                "There is no endpoint for webhooks. Set webhooks.url and webhooks.secret, or webhooks.endpoints."
            )
        }
    }

    /// Returns the endpoint with this name.
    ///
    /// - Throws: ``Problem`` 400 for an unknown name.
    private func endpoint(named name: String) throws -> WebhookEndpoint {
        guard let endpoint = endpoints[name] else { throw Problem.field("endpoint", choice) }
        return endpoint
    }

    /// The names of the endpoints, in words that follow "must be".
    private var choice: String { "one of \(endpoints.all.map(\.name).joined(separator: ", "))" }

    private static let nameKind = Kind<String>.text(1...32)

    // MARK: Showing

    /// The number of replays that are shown.
    private static let shownReplays = 100
    private static let shownEndpoint = Field.optional("endpoint", nameKind, "Only this endpoint, by its name.")

    private static let showing = Operation(
        "getWebhooks",
        .get,
        "/v1/webhooks",
        .operator(.operate),
        "Shows the endpoints of webhooks, what waits for them, and a page of the webhooks that were not accepted, the latest first.",
        query: Page<UUID>.fields + [shownEndpoint],
        answers: [.json(.ok, WebhookStatus.shape, "The endpoints.")],
        handler: show
    )

    @Sendable private func show(_ call: Call) async throws -> Response {
        let (page, name) = (try Page<UUID>(call), try call[Self.shownEndpoint])
        var states = try await store.pool.read(ListEndpointStates(endpoint: name))
        for index in states.indices { states[index].url = endpoints[states[index].name]?.url }
        let unaccepted = try await store.pool.read(
            ListUnacceptedWebhooks(before: page.cursor, endpoint: name, limit: page.limit + 1)
        )
        let shown = Array(unaccepted.prefix(page.limit))
        let status = WebhookStatus(
            endpoints: states,
            replays: try await store.pool.read(ListReplays(endpoint: name, limit: Self.shownReplays)),
            unaccepted: shown,
            next: unaccepted.count > page.limit ? shown.last?.id : nil
        )
        return .json(WebhookStatus.shape.json(status))
    }

    // MARK: Replay

    private static let id = Field.optional(
        "id",
        .text(1...200),
        "The `webhook-id` of one webhook, in place of the other fields."
    )
    private static let since = Field.optional(
        "since",
        .time,
        "Only webhooks that were stored since then; required without `id`."
    )
    private static let until = Field.optional(
        "until",
        .time,
        "Only webhooks that were stored before then. Without it, up to now."
    )
    private static let types = Field.optional(
        "types",
        Kind.text(oneOf: WebhookTypes.allPatterns).array(count: 1...20),
        "Only webhooks of these types, or of prefixes such as `push.*`. Without it, of all types that an endpoint gets."
    )
    private static let replayedEndpoint = Field.optional(
        "endpoint",
        nameKind,
        "Only webhooks of this endpoint, by its name. Without it, of all endpoints."
    )

    private static let replaying = Operation(
        "replayWebhooks",
        .post,
        "/v1/webhooks/replay",
        .operator(.admin),
        "Delivers webhooks again, in the background: one, or those of a time. Their ids and bodies are the same.",
        body: .fields([id, since, until, types, replayedEndpoint]),
        answers: [.empty(.accepted, "The webhooks are delivered again.")],
        problems: [.notConfigured, .notFound],
        auditing: .ahead { call in try call[id].map { .object($0) } ?? .server },
        handler: replay
    )

    @Sendable private func replay(_ call: Call) async throws -> Response {
        let (id, since, until) = (try call[Self.id], try call[Self.since], try call[Self.until])
        let (types, name) = (try call[Self.types].map { WebhookTypes(known: $0) }, try call[Self.replayedEndpoint])
        try requireEndpoints()
        if let id {
            guard since == nil, until == nil, types == nil, name == nil else {
                throw Problem.field("id", "absent with since, until, types or endpoint", "It names a single webhook.")
            }
            try await replay(id)
        } else {
            guard let since else {
                throw Problem.field("since", Kind.time.allowed, "Only a single webhook, which id names, needs no time.")
            }
            let until = until ?? Date()
            guard since < until else { throw Problem.field("until", "after since") }
            let endpoint = try name.map { try self.endpoint(named: $0).name }
            try await store.pool.write(
                StoreReplays(since: since, until: until, types: types ?? WebhookTypes(), endpoint: endpoint)
            )
            replays.wake()
        }
        return Response(.accepted)
    }

    /// Delivers one webhook again.
    ///
    /// - Throws: ``Problem`` 404 if there is none with this id.
    private func replay(_ id: String) async throws {
        guard let event = WebhookMessage.event(id), try await store.pool.write(RetryWebhook(id: event)) > 0 else {
            throw Problem(
                of: .notFound,
                "There is no webhook with this id any more, or its endpoint does not get its type any more."
            )
        }
        notices.wake()
    }

    private static let cancelingReplays = Operation(
        "cancelWebhookReplays",
        .delete,
        "/v1/webhooks/replay",
        .operator(.admin),
        "Ends all replays of times. Their webhooks that wait are not delivered again. New webhooks, and replays of single ones, are not affected.",
        answers: [.empty(.noContent, "None is delivered again, apart from those that are being sent, and retried.")],
        problems: [.notConfigured],
        auditing: .ahead { _ in .server },
        handler: cancelReplays
    )

    @Sendable private func cancelReplays(_ call: Call) async throws -> Response {
        try requireEndpoints()
        try await store.cancelReplays()
        return Response(.noContent)
    }

    // MARK: Test

    private static let testedEndpoint = Field.optional(
        "endpoint",
        nameKind,
        "The name of the endpoint; required if there are several."
    )

    private static let testing = Operation(
        "testWebhooks",
        .post,
        "/v1/webhooks/test",
        .operator(.operate),
        "Sends a webhook of the type `webhook.test` to an endpoint, and shows its response. If it accepts it, others follow at once.",
        body: .fields([testedEndpoint]),
        answers: [.json(.ok, WebhookTest.shape, "The response of the endpoint, whatever it is.")],
        problems: [.notConfigured],
        auditing: .ahead { _ in .server },
        handler: test
    )

    @Sendable private func test(_ call: Call) async throws -> Response {
        let name = try call[Self.testedEndpoint]
        try requireEndpoints()
        let endpoint = try endpointToTest(name)
        let message = WebhookMessage.test()
        let attempt = await sender.send(message, to: endpoint)
        if attempt.outcome == .delivered {
            try await store.pool.write(RestoreEndpoint(endpoint: endpoint.name))
            notices.wake()
        }
        let test = WebhookTest(endpoint: endpoint.name, id: message.id, attempt: attempt)
        return .json(WebhookTest.shape.json(test))
    }

    /// - Throws: ``Problem`` 400 for an unknown name, or none if there are several endpoints.
    private func endpointToTest(_ name: String?) throws -> WebhookEndpoint {
        if let name { return try endpoint(named: name) }
        let all = endpoints.all
        guard all.count == 1, let only = all.first else {
            throw Problem.field("endpoint", choice, "There are several endpoints.", isMissing: true)
        }
        return only
    }
}

/// The result of a test of an endpoint.
private struct WebhookTest: Sendable {
    let endpoint: String
    let id: String
    let attempt: WebhookAttempt

    static let shape = Shape<WebhookTest>(
        "WebhookTest",
        [
            .member("endpoint", .text, "The name of the endpoint.", \.endpoint),
            .member("id", .text, "The `webhook-id` of the test.", \.id),
            .member("delivered", .boolean, "Whether the endpoint has accepted it.") {
                $0.attempt.outcome == .delivered
            },
            .nullable("status", .count, "The status of its response; null if there is none.") { test in
                test.attempt.status.map(Int64.init)
            },
            .member("milliseconds", .count, "How long it took.") { Int64($0.attempt.duration.wholeMilliseconds) },
            .member("text", .text, "The first 200 characters of the response, or the error.", \.attempt.text),
        ]
    )
}

/// The endpoints and their webhooks as operators see them.
private struct WebhookStatus: Sendable {
    let endpoints: [EndpointState]
    let replays: [WebhookReplay]
    let unaccepted: [UnacceptedWebhook]
    let next: UUID?

    static let shape = Shape<WebhookStatus>(
        "Webhooks",
        [
            .array("endpoints", EndpointState.shape.kind, "The endpoints, by name; empty without any.", \.endpoints),
            .array(
                "replays",
                WebhookReplay.shape.kind,
                "The times whose webhooks are still to be delivered again, the first 100.",
                \.replays
            ),
            .array(
                "items",
                UnacceptedWebhook.shape.kind,
                "A page of the webhooks that were not accepted.",
                \.unaccepted
            ),
            .nullable("next", .text, "The `cursor` of the next page; null on the last one.", \.next?.lowercased),
        ]
    )
}
