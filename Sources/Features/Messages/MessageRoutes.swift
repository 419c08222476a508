import Endpoints
import FoundationEssentials
import HTTPServer
import HTTPTypes
import JSON
import Postgres
import Runtime
import Schemas
import Sharing
import Templates

/// `/v1/messages`: KakaoTalk messages in the name of users, to themselves or to their friends.
struct MessageRoutes: RouteCollection {
    static let title = "KakaoTalk messages"
    static let operations = [creating, listing, showing, listingReceivers, canceling]

    let store: MessageStore
    let previewer: MessagePreviewer
    /// Whether the server keeps accounts, without whose tokens no message can be sent.
    let keepsAccounts: Bool
    let images: ImageReferences
    let notices: MessageNotices
    let consentURL: @Sendable (_ userID: Int64, _ scopes: [String]) -> String?

    // MARK: Creating

    private static let dryRun = Field.flag(
        "dry_run",
        "Whether to only say what would be sent, and to whom not. Nothing is stored or sent."
    )

    private static let creating = Operation(
        "createMessage",
        .post,
        "/v1/messages",
        .operator(.talk),
        "Sends a KakaoTalk message in the name of a user.",
        headers: [Idempotency.field],
        body: .fields(NewMessage.fields + [dryRun]),
        answers: [
            .json(.accepted, MessageSummary.shape, "The message, which is stored.", headers: [.location]),
            .json(.ok, MessagePreview.shape, "The result of a dry run."),
        ],
        problems: [
            .idempotencyKeyInUse, .invalidTemplate, .unknownImage, .notConfigured, .refusedByKakao,
            .kakaoUnavailable, .badGateway, .serverRefused,
        ],
        needs: NeededSetting("accounts.encryption_key") { $0.keepsAccounts },
        handler: create
    )

    @Sendable private func create(_ call: Call) async throws -> Response {
        var message = try NewMessage(call)
        message.createdBy = call.caller.keyName
        let isDryRun = try call[Self.dryRun]
        let idempotency = try Idempotency(call)
        let findings = try await message.content.resolved(images).findings(TemplateLinter())
        try Problem.requireAccepted(findings)
        guard !isDryRun else {
            try await message.times.check(store.pool)
            var receivers = try await previewer.receivers(of: message)
            for index in receivers.indices { receivers[index].setConsentURL { consentURL(message.sender, $0) } }
            return .json(MessagePreview.shape.json(MessagePreview(receivers: receivers, findings: findings)))
        }
        // The response contains the time as it is stored, so that it does not change later.
        let now = Date().asStored
        let body = MessageSummary.shape.json(message.summary(findings, createdAt: now))
        let creation = try await store.create(message, idempotency, response: body, now: now)
        if !creation.isRepetition { notices.servers.send() }
        return creation.response(under: "/v1/messages", status: .accepted)
    }

    // MARK: Showing

    private static let id = Field.path("id", .uuid, "The id of the message.")
    private static let state = Field.optional("state", .messageState, "Only messages in this state.")
    private static let sender = Field.optional("sender", .userID, "Only messages of this sender.")

    private static let listing = Operation(
        "listMessages",
        .get,
        "/v1/messages",
        .operatorWithAny([.talk, .operate]),
        "Lists messages, the latest first.",
        query: [state, sender] + Page<UUID>.fields,
        answers: [.page(of: MessageSummary.shape, "The messages.")],
        auditing: .lookup { .users(try $0[sender].map { [$0] } ?? []) },
        handler: list
    )

    @Sendable private func list(_ call: Call) async throws -> Response {
        let page = try Page<UUID>(call)
        let list = ListMessages(
            state: try call[Self.state],
            sender: try call[Self.sender],
            before: page.cursor,
            limit: page.limit + 1
        )
        return page.response(try await store.pool.read(list, mayBeBehind: true), MessageSummary.shape, cursor: \.id)
    }

    private static let showing = Operation(
        "getMessage",
        .get,
        "/v1/messages/{id}",
        .operatorWithAny([.talk, .operate]),
        "Returns a message with the number of its receivers in each state.",
        path: [id],
        answers: [.json(.ok, MessageSummary.shape, "The message.")],
        problems: [.notFound],
        handler: show
    )

    @Sendable private func show(_ call: Call) async throws -> Response {
        .json(MessageSummary.shape.json(try await message(call)))
    }

    private static let receiverState = Field.optional("state", .receiverState, "Only receivers in this state.")

    private static let listingReceivers = Operation(
        "listMessageReceivers",
        .get,
        "/v1/messages/{id}/receivers",
        .operatorWithAny([.talk, .operate]),
        "Lists the receivers of a message in the order of the request, with the reasons of those that are not reached.",
        path: [id],
        query: [receiverState] + Page<Int32>.fields,
        answers: [.page(of: ReceiverSummary.shape, "The receivers.")],
        problems: [.notFound],
        handler: receivers
    )

    @Sendable private func receivers(_ call: Call) async throws -> Response {
        let state = try call[Self.receiverState]
        let page = try Page<Int32>(call)
        let message = try await message(call)
        var receivers = try await store.pool.read(
            ListReceivers(messageID: message.id, state: state, after: page.cursor ?? -1, limit: page.limit + 1)
        )
        for index in receivers.indices { receivers[index].setConsentURL { consentURL(message.sender, $0) } }
        return page.response(receivers, ReceiverSummary.shape, cursor: \.position)
    }

    // MARK: Canceling

    private static let canceling = Operation(
        "cancelMessage",
        .post,
        "/v1/messages/{id}/cancel",
        .operatorWithAny([.talk, .operate]),
        "Ends a message. Receivers to whom it has not been sent are skipped.",
        path: [id],
        answers: [.json(.ok, MessageSummary.shape, "The message.")],
        problems: [.notFound, .messageEnded],
        auditing: .handler,
        handler: cancel
    )

    @Sendable private func cancel(_ call: Call) async throws -> Response {
        let id = try call.identifier(Self.id, orThrow: Self.notFound)
        let isCanceled = try await store.cancel(id, recording: call.auditRecord(of: .object(id.lowercased)))
        if isCanceled { notices.webhooks.send() }
        let message = try await message(call)
        // A repetition of a request whose response was lost has no further effect.
        guard isCanceled || message.state == .canceled else {
            throw Problem(of: .messageEnded, "Cannot cancel a message in state `\(message.state.rawValue)`.")
        }
        return .json(MessageSummary.shape.json(message))
    }

    private func message(_ call: Call) async throws -> MessageSummary {
        let id = try call.identifier(Self.id, orThrow: Self.notFound)
        guard let message = try await store.pool.read(ReadMessage(id: id)).first else { throw Self.notFound }
        return message
    }

    private static var notFound: Problem { Problem(of: .notFound, "There is no such message.") }
}

extension ProblemKind {
    fileprivate static let messageEnded = ProblemKind(.conflict, "message-ended", "The message has ended.")
}
