import Endpoints
import EventLoop
import FoundationEssentials
import HTTPServer
import HTTPTypes
import Postgres
import Runtime
import Schemas

/// `/v1/webhooks`: the state of the endpoint, its test, and the repetition of webhooks.
struct WebhookRoutes: RouteCollection {
    static let title = "Webhooks"
    static let operations = [showing, replaying, cancelingReplays, testing]

    /// The endpoint; `nil` if there is none.
    let endpoint: Endpoint?

    /// The parts that need an endpoint.
    struct Endpoint: Sendable {
        let url: WebhookURL
        let store: WebhookStore
        let sender: WebhookSender
        let sources: [WebhookSource]
        let types: WebhookTypes
    }

    /// - Throws: ``Problem`` 409 without an endpoint.
    private func configured() throws -> Endpoint {
        guard let endpoint else {
            throw Problem(
                of: .notConfigured,
                "There is no endpoint for webhooks. Set webhooks.url and webhooks.secret."
            )
        }
        return endpoint
    }

    // MARK: Showing

    /// The number of replays that are shown.
    private static let shownReplays = 100

    private static let showing = Operation(
        "getWebhooks",
        .get,
        "/v1/webhooks",
        .operator(.admin),
        "Shows the endpoint of webhooks, how far they are delivered, and a page of those that it has not accepted, the latest first.",
        query: Page<UUID>.fields,
        answers: [.json(.ok, WebhookStatus.shape, "The endpoint.")],
        handler: show
    )

    @Sendable private func show(_ call: Call) async throws -> Response {
        let page = try Page<UUID>(call)
        guard let endpoint else { return .json(WebhookStatus.shape.json(WebhookStatus())) }
        let failed = try await endpoint.store.failedWebhooks(before: page.cursor, limit: page.limit + 1)
        let shown = Array(failed.prefix(page.limit))
        let status = WebhookStatus(
            url: endpoint.url,
            state: try await endpoint.store.pool.read(ReadEndpoint()).first,
            lags: try await SourceLag.read(endpoint.sources, endpoint.store.pool),
            replays: try await endpoint.store.replays(limit: Self.shownReplays),
            failed: shown,
            next: failed.count > page.limit ? shown.last?.id : nil
        )
        return .json(WebhookStatus.shape.json(status))
    }

    // MARK: Replay

    private static let id = Field.optional(
        "id",
        .text(1...200),
        "The `webhook-id` of one webhook, in place of the times."
    )
    private static let since = Field.optional(
        "since",
        .time,
        "Only webhooks of events that were stored since then; required without `id`."
    )
    private static let until = Field.optional(
        "until",
        .time,
        "Only webhooks of events that were stored before then. Without it, up to now."
    )
    private static let types = Field.optional(
        "types",
        Kind.text(oneOf: WebhookTypes.allPatterns).array(count: 1...20),
        "Only webhooks of these types, or of prefixes such as `push.*`. Without it, of all types that the endpoint gets."
    )

    private static let replaying = Operation(
        "replayWebhooks",
        .post,
        "/v1/webhooks/replay",
        .operator(.admin),
        "Delivers webhooks again, in the background: one, or those of a time. Their ids are the same.",
        body: .fields([id, since, until, types]),
        answers: [.empty(.accepted, "The webhooks are delivered again.")],
        problems: [.notConfigured, .notFound],
        auditing: .ahead { call in try call[id].map { .object($0) } ?? .server },
        handler: replay
    )

    @Sendable private func replay(_ call: Call) async throws -> Response {
        let (id, since, until) = (try call[Self.id], try call[Self.since], try call[Self.until])
        let types = try call[Self.types].map { WebhookTypes(known: $0) }
        let endpoint = try configured()
        if let id {
            guard since == nil, until == nil, types == nil else {
                throw Problem.field("id", "absent with since, until or types", "It names a single webhook.")
            }
            try await replay(id, endpoint)
        } else {
            guard let since else {
                throw Problem.field("since", Kind.time.allowed, "Only a single webhook, which id names, needs no time.")
            }
            let until = until ?? Date()
            guard since < until else { throw Problem.field("until", "after since") }
            let wanted = WebhookTypes.choices.filter {
                (types ?? endpoint.types).contains($0) && endpoint.types.contains($0)
            }
            let sources = endpoint.sources.filter { $0.types.contains(where: wanted.contains) }
            try await endpoint.store.replay(wanted, of: sources, since: since, until: until)
            try await endpoint.store.notify(WebhookNotices.Subject.replays.rawValue)
        }
        return Response(.accepted)
    }

    /// Delivers one webhook again, whether it was set aside or not.
    ///
    /// - Throws: ``Problem`` 404 if there is no event with this id any more.
    private func replay(_ id: String, _ endpoint: Endpoint) async throws {
        if try await !endpoint.store.retry(webhookID: id) {
            guard let message = try await message(id, endpoint) else {
                throw Problem(
                    of: .notFound,
                    "There is no webhook with this id, or its event has been deleted or has changed, or the endpoint does not get its type."
                )
            }
            try await endpoint.store.setAside(message, after: nil, .zero)
        }
        try await endpoint.store.notify(WebhookNotices.Subject.failures.rawValue)
    }

    private func message(_ id: String, _ endpoint: Endpoint) async throws -> WebhookMessage? {
        guard let id = WebhookID(id), let source = endpoint.sources.first(where: { $0.name == id.source }),
            source.key.isValid(id.position.key)
        else { return nil }
        guard let event = try await source.event(at: id.position, endpoint.store.pool),
            let type = event.type, endpoint.types.contains(type)
        else { return nil }
        return WebhookMessage(event, of: source)
    }

    private static let cancelingReplays = Operation(
        "cancelWebhookReplays",
        .delete,
        "/v1/webhooks/replay",
        .operator(.admin),
        "Ends the delivery of the webhooks of times that were to be delivered again. New webhooks, and those that were set aside, are not affected.",
        answers: [.empty(.noContent, "None is delivered again, apart from those of the last second.")],
        problems: [.notConfigured],
        auditing: .ahead { _ in .server },
        handler: cancelReplays
    )

    @Sendable private func cancelReplays(_ call: Call) async throws -> Response {
        try await configured().store.pool.write(DeleteReplays())
        return Response(.noContent)
    }

    // MARK: Test

    private static let testing = Operation(
        "testWebhooks",
        .post,
        "/v1/webhooks/test",
        .operator(.admin),
        "Sends a webhook of the type `webhook.test` to the endpoint, and shows its response. If it accepts it, others follow at once.",
        answers: [.json(.ok, WebhookTest.shape, "The response of the endpoint, whatever it is.")],
        problems: [.notConfigured],
        auditing: .ahead { _ in .server },
        handler: test
    )

    @Sendable private func test(_ call: Call) async throws -> Response {
        let endpoint = try configured()
        let message = WebhookMessage.test()
        let attempt = await endpoint.sender.send(message)
        if attempt.outcome == .delivered {
            try await endpoint.store.pool.write(RestoreEndpoint())
            try await endpoint.store.notify(WebhookNotices.Subject.endpoint.rawValue)
        }
        return .json(WebhookTest.shape.json(WebhookTest(id: message.id, attempt: attempt)))
    }
}

/// The result of a test of the endpoint.
private struct WebhookTest: Sendable {
    let id: String
    let attempt: WebhookAttempt

    static let shape = Shape<WebhookTest>(
        "WebhookTest",
        [
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

/// The endpoint and its webhooks as operators see them.
private struct WebhookStatus: Sendable {
    var url: WebhookURL?
    var state: EndpointState?
    var lags: [SourceLag] = []
    var replays: [WebhookReplay] = []
    var failed: [FailedWebhook] = []
    var next: UUID?

    static let shape = Shape<WebhookStatus>(
        "Webhooks",
        [
            .nullable("endpoint", .text, "The address, without its query; null if there is none.", \.url?.shown),
            .member(
                "state",
                .choice,
                "`delivering`; `failing` while it does not accept webhooks, which then wait; `gone` after a response of 410; `off`."
            ) { status in status.state?.status ?? .off },
            .nullable("since", .time, "Since when it is in this state.", \.state?.since),
            .nullable("last_error", .text, "Its last error.", \.state?.lastError),
            .nullable("last_error_at", .time, "When that happened.", \.state?.lastErrorAt),
            .array("sources", sourceShape.kind, "How far the events of each source are delivered.", \.lags),
            .array(
                "replays",
                replayShape.kind,
                "What is delivered again, a part for each source, in this order; the first 100.",
                \.replays
            ),
            .array("items", failedShape.kind, "A page of the webhooks that it has not accepted.", \.failed),
            .nullable("next", .text, "The `cursor` of the next page; null on the last one.", \.next?.lowercased),
        ]
    )

    private static let sourceShape = Shape<SourceLag>(
        "WebhookSource",
        [
            .member("source", .text, "The name of the source.", \.source.name),
            .array("types", .text, "The types of its webhooks.") { $0.source.types.map(\.rawValue) },
            .member(
                "lag_seconds",
                .seconds,
                "For how long its oldest event has waited for its webhook; 0 if none waits.",
                \.seconds
            ),
        ]
    )

    private static let replayShape = Shape<WebhookReplay>(
        "WebhookReplay",
        [
            .member("source", .text, "The name of the source.", \.source),
            .member("since", .time, "Events that were stored since then.", \.since),
            .member("until", .time, "Events that were stored before then.", \.until),
            .array("types", .text, "The types of the webhooks.", \.types),
        ]
    )

    private static let failedShape = Shape<FailedWebhook>(
        "FailedWebhook",
        [
            .member("id", .text, "Its `webhook-id`.", \.message.id),
            .member("type", .text, "Its type.", \.message.type),
            .member("timestamp", .time, "When its event happened.", \.message.happenedAt),
            .member("state", .choice, "`pending`, or `failed` after all attempts.", \.state),
            .member("attempts", Kind<Int32>.number, "The failed attempts.", \.attempts),
            .nullable("next_attempt_at", .time, "When it is tried again.") { webhook in
                webhook.state == .pending ? webhook.nextAttemptAt : nil
            },
            .nullable("last_status", Kind<Int32>.number, "The status of the last response.", \.lastStatus),
            .nullable("last_error", .text, "The last error.", \.lastError),
        ]
    )
}
