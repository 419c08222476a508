import Endpoints
import FoundationEssentials
import HTTPServer
import HTTPTypes
import JSON
import Postgres
import Runtime
import Schemas
import Sharing

/// `/kakao/link/callback`, which Kakao calls, and `/v1/link/callbacks`, where operators read and export the callbacks.
struct LinkCallbackRoutes: RouteCollection {
    static let title = "Link callbacks"
    static let operations = [listing, exporting, receiving(.get), receiving(.post)]

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
    private static let filters: [any FieldDeclaration] = [
        since, until, storedSince, chatType, templateID, share, args,
    ]

    private static let listing = Operation(
        "listLinkCallbacks",
        .get,
        "/v1/link/callbacks",
        .operator(.read),
        "Lists the callbacks of Kakao Link messages, the latest first.",
        query: filters + Page<UUID>.fields,
        answers: [.page(of: LinkCallback.shape, "The callbacks.")],
        handler: list
    )

    @Sendable private func list(_ call: Call) async throws -> Response {
        let page = try Page<UUID>(call)
        var list = try Self.list(call, limit: page.limit + 1)
        list.before = page.cursor
        return page.response(try await list.read(on: pool), LinkCallback.shape, cursor: \.call.id)
    }

    private static func list(_ call: Call, limit: Int) throws -> ListLinkCallbacks {
        var args = JSONObject()
        // Stored arguments have no NUL, so the filter has none either.
        for (name, value) in call[Self.args] { args[name.withoutNUL] = .string(value.withoutNUL) }
        return ListLinkCallbacks(
            since: try call[since],
            until: try call[until],
            storedSince: try call[storedSince],
            chatType: try call[chatType],
            templateID: try call[templateID],
            shareID: try call[share],
            args: args.isEmpty ? nil : JSONValue.object(args).bytes(),
            limit: limit
        )
    }

    // MARK: Export

    private static let format = Field.optional(
        "format",
        Kind<TransferFormat>.choice,
        "The format. Without it, `Accept` decides; without that, it is `ndjson`."
    )

    private static let exporting = Operation(
        "exportLinkCallbacks",
        .get,
        "/v1/link/callbacks/export",
        .operator(.read),
        "Exports the callbacks of Kakao Link messages, the latest first.",
        query: filters + [format],
        answers: [.media(.ok, TransferFormat.allCases.map(\.contentType), "One callback a line.")],
        auditing: .download { _ in .server },
        handler: export
    )

    @Sendable private func export(_ call: Call) async throws -> Response {
        let format = try call[Self.format] ?? TransferFormat(accepted: call.request[.accept]) ?? .ndjson
        let list = try Self.list(call, limit: LinkCallbackExport.pageSize)
        return try await LinkCallbackExport(pool: pool, format: format).response(list)
    }
}
