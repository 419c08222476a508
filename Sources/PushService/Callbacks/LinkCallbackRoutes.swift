internal import FoundationEssentials
internal import HTTPServer
internal import HTTPTypes
internal import JSON

/// `/kakao/link/callback`, which Kakao calls, and `/v1/link/callbacks`, where operators read the callbacks.
struct LinkCallbackRoutes: Sendable {
    let store: LinkCallbackStore
    let intake: CallIntake

    func add(to router: inout ServiceRouter) {
        for method in [HTTPRequest.Method.get, .post] {
            router.on(method, "/kakao/link/callback", .kakao, bodyLimit: ServiceRouter.smallBody, receive)
        }
        router.on(.get, "/v1/link/callbacks", .operator(.read), list)
    }

    /// Responds with 200 once the callback is committed or in the journal, since Kakao does not call again.
    private func receive(_ request: Request) async throws -> Response {
        try await intake.keep(.linkCallback(LinkCallback(request)), request)
        return Response(.ok)
    }

    private func list(_ request: Request) async throws -> Response {
        let parameters = try Parameters(request)
        var args = JSONObject()
        for name in parameters.names where name.hasPrefix("arg.") {
            // Stored arguments have no NUL, so the filter has none either.
            args[String(name.dropFirst(4)).withoutNUL] = .string((parameters.anyText(name) ?? "").withoutNUL)
        }
        let page = try Page<UUID>(parameters)
        let filter = LinkCallbackStore.Filter(
            since: try parameters.optionalTime("since"),
            until: try parameters.optionalTime("until"),
            storedSince: try parameters.optionalTime("stored_since"),
            chatType: try parameters.optionalText("chat_type", length: 1...64),
            templateID: try parameters.optionalInteger("template_id", in: 0...Int64.max),
            args: args.isEmpty ? nil : JSONValue.object(args).bytes(),
            before: page.cursor
        )
        let callbacks = try await store.list(filter, limit: page.limit + 1)
        return page.response(callbacks, cursor: \.call.id) { stored, json in
            let callback = stored.call
            json.member("id", callback.id.lowercased)
            json.member("resource_id", callback.resourceID)
            json.member("chat_type", callback.chatType)
            json.member("hash_chat_id", callback.hashChatID)
            json.member("template_id", callback.templateID)
            json.member("args", JSONFragment(callback.args))
            json.member("received_at", callback.receivedAt.rfc3339)
            json.member("stored_at", stored.storedAt.rfc3339)
        }
    }
}
