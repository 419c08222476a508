import Endpoints
import FoundationEssentials
import HTTPServer
import HTTPTypes
import JSON
import Postgres
import Runtime
import Schemas
import Sharing

/// `/kakao/link/callback`, which Kakao calls, and `/v1/link/callbacks`, where operators read the callbacks.
struct LinkCallbackRoutes: RouteCollection {
    static let title = "Link callbacks"
    static let operations = [listing, receiving(.get), receiving(.post)]

    let pool: PostgresPool
    let intake: CallIntake
    /// Checks the signatures of custom arguments; `nil` without a key.
    let signer: ShareSigner?
    /// Whether callbacks without a valid signature are dropped.
    let requiresSignature: Bool
    /// Counts the outcomes of the signatures.
    let signatures: LoopCounts<String>.Own

    // MARK: Receiving

    private static func receiving(_ method: HTTPRequest.Method) -> Operation<LinkCallbackRoutes> {
        Operation(
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
            answers: [.empty(.ok, "The callback is stored.")],
            handler: receive
        )
    }

    /// Responds with 200 once the callback is committed or in the journal, since Kakao does not call again. A callback
    /// that is dropped gets 200 as well, since Kakao turns a webhook off that rejects calls.
    @Sendable private func receive(_ call: Call) async throws -> Response {
        try await intake.receive(.link, call.request) {
            let callback = LinkCallback(call, signer)
            signatures.add(to: callback.signature?.name ?? CallbackMonitoring.unsigned)
            guard !requiresSignature || callback.signature?.shareID != nil else { return .unsigned }
            return callback.raw == nil ? .understood(.linkCallback(callback)) : .malformed(.linkCallback(callback))
        }
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
    private static let share = Field.optional("share", .shareID, "Only callbacks with a valid signature of this share.")
    private static let args = FieldGroup(prefix: "arg.", "Only callbacks with these custom arguments.")
    private static let format = Field.optional(
        "format",
        Kind<TransferFormat>.choice,
        "Returns all callbacks, one a line. Without it, `Accept` decides; without that, a page is returned."
    )

    private static let listing = Operation(
        "listLinkCallbacks",
        .get,
        "/v1/link/callbacks",
        .operator(.read),
        "Lists or exports the callbacks of Kakao Link messages, the latest first.",
        query: [since, until, storedSince, chatType, templateID, share, args, format] + Page<UUID>.fields,
        answers: [
            .page(of: LinkCallback.shape, "The callbacks.").or(TransferFormat.allCases.map(\.contentType))
        ],
        handler: list
    )

    @Sendable private func list(_ call: Call) async throws -> Response {
        var args = JSONObject()
        // Stored arguments have no NUL, so the filter has none either.
        for (name, value) in call[Self.args] { args[name.withoutNUL] = .string(value.withoutNUL) }
        var list = ListLinkCallbacks(
            since: try call[Self.since],
            until: try call[Self.until],
            storedSince: try call[Self.storedSince],
            chatType: try call[Self.chatType],
            templateID: try call[Self.templateID],
            shareID: try call[Self.share],
            args: args.isEmpty ? nil : JSONValue.object(args).bytes(),
            limit: LinkCallbackExport.pageSize
        )
        if let format = try call[Self.format] ?? TransferFormat(accepted: call.request[.accept]) {
            try Page<UUID>.requireNone(call)
            return try await LinkCallbackExport(pool: pool, format: format).response(list)
        }
        let page = try Page<UUID>(call)
        list.before = page.cursor
        list.limit = page.limit + 1
        return page.response(try await pool.read(list), LinkCallback.shape, cursor: \.call.id)
    }
}
