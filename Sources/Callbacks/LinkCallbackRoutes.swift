internal import FoundationEssentials
internal import HTTPServer
internal import HTTPTypes
internal import JSON
internal import Schemas
internal import ServiceKit

/// `/kakao/link/callback`, which Kakao calls, and `/v1/link/callbacks`, where operators read the callbacks.
struct LinkCallbackRoutes: RouteCollection {
    static let title = "Link callbacks"
    static let operations = [listing, receiving(.get), receiving(.post)]

    let store: LinkCallbackStore
    let intake: CallIntake

    // MARK: Receiving

    private static func receiving(_ method: HTTPRequest.Method) -> Operation<LinkCallbackRoutes> {
        Operation(
            OperationDeclaration(
                method == .get ? "receiveLinkCallback" : "receiveLinkCallbackByPost",
                method,
                "/kakao/link/callback",
                .kakao,
                "Stores that a Kakao Link message has reached a chat room.",
                query: method == .get ? LinkCallback.fields : [],
                headers: [Call.kakaoResourceID],
                body: method == .get ? .none : .fields(LinkCallback.fields),
                unknownFields: .kept,
                maximumBodyBytes: RequestSize.small,
                answers: [.empty(.ok, "The callback is stored.")]
            ),
            handler: receive
        )
    }

    /// Responds with 200 once the callback is committed or in the journal, since Kakao does not call again.
    @Sendable private func receive(_ call: Call) async throws -> Response {
        try await intake.keep(.linkCallback(LinkCallback(call)), call.request)
        return Response(.ok)
    }

    // MARK: Listing

    private static let since = Field.optional("since", .time, "Only callbacks received since then.")
    private static let until = Field.optional("until", .time, "Only callbacks received before then.")
    private static let storedSince = Field.optional(
        "stored_since",
        .time,
        "Only callbacks stored since then, however long ago they were received."
    )
    private static let chatType = Field.optional(
        "chat_type",
        .text(1...64),
        "Only callbacks of this kind of chat room."
    )
    private static let templateID = Field.optional(
        "template_id",
        Kind<Int64>.integer(0...Int64.max),
        "Only callbacks of this template."
    )
    private static let args = FieldGroup(prefix: "arg.", "Only callbacks with these custom arguments.")

    private static let listing = Operation(
        OperationDeclaration(
            "listLinkCallbacks",
            .get,
            "/v1/link/callbacks",
            .operator(.read),
            "Lists the callbacks of Kakao Link messages, the latest first.",
            query: [since, until, storedSince, chatType, templateID, args] + Page<UUID>.fields,
            answers: [.page(of: callbackShape, "The callbacks.")]
        ),
        handler: list
    )

    @Sendable private func list(_ call: Call) async throws -> Response {
        var args = JSONObject()
        // Stored arguments have no NUL, so the filter has none either.
        for (name, value) in call[Self.args] { args[name.withoutNUL] = .string(value.withoutNUL) }
        let page = try Page<UUID>(call)
        let filter = LinkCallbackStore.Filter(
            since: try call[Self.since],
            until: try call[Self.until],
            storedSince: try call[Self.storedSince],
            chatType: try call[Self.chatType],
            templateID: try call[Self.templateID],
            args: args.isEmpty ? nil : JSONValue.object(args).bytes(),
            before: page.cursor
        )
        let callbacks = try await store.list(filter, limit: page.limit + 1)
        return page.response(callbacks, callbackShape, cursor: \.call.id)
    }
}

/// The members of a callback in the list.
private let callbackShape = Shape<StoredCall<LinkCallback>>(
    "LinkCallback",
    [
        .member("id", .uuid, "The id of the callback, which sorts by the time of receipt.", \.call.id),
        .nullable("resource_id", .text, "Kakao's id of the callback.", \.call.resourceID),
        .member("chat_type", .text, "The kind of chat room.", \.call.chatType),
        .member("hash_chat_id", .text, "The chat room.", \.call.hashChatID),
        .nullable(
            "template_id",
            Kind<Int64>.integer(0...Int64.max),
            "The custom template.",
            \.call.templateID
        ),
        .member("args", .objectText, "The custom arguments. They come from a phone: data, never trusted.") {
            JSONFragment($0.call.args)
        },
        .member("received_at", .time, "When Kakao called.", \.call.receivedAt),
        .member("stored_at", .time, "When the callback was stored.", \.storedAt),
    ]
)
