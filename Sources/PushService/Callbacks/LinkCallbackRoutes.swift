internal import FoundationEssentials
internal import HTTPServer
internal import HTTPTypes
internal import JSON

/// `/kakao/link/callback`, which Kakao calls, and `/v1/link/callbacks`, where operators read what came.
struct LinkCallbackRoutes: Sendable {
    let authenticator: Authenticator
    let store: LinkCallbackStore

    func add(to router: inout Router) {
        router.on(.get, "/kakao/link/callback", receive)
        router.on(.post, "/kakao/link/callback", receive)
        router.on(.get, "/v1/link/callbacks", list)
    }

    /// 200 once the callback is committed: Kakao calls once, and does not call again. So it is stored even if Kakao hangs up before.
    private func receive(_ request: Request) async throws -> Response {
        try authenticator.requireKakao(request)
        let callback = try LinkCallback(request)
        try await request.uninterrupted { try await store.insert(callback) }
        return Response(.ok)
    }

    private func list(_ request: Request) async throws -> Response {
        try await authenticator.requireOperator(request, .read)
        let parameters = try Parameters(request)
        var args = JSONObject()
        for name in parameters.names where name.hasPrefix("arg.") {
            // Asked for as it was stored.
            args[String(name.dropFirst(4)).withoutNUL] = .string((parameters.anyText(name) ?? "").withoutNUL)
        }
        let page = try Page<UUID>(parameters)
        let filter = LinkCallbackStore.Filter(
            since: try parameters.optionalTime("since"),
            until: try parameters.optionalTime("until"),
            chatType: try parameters.optionalText("chat_type", length: 1...64),
            templateID: try parameters.optionalInteger("template_id", in: 0...Int64.max),
            args: args.isEmpty ? nil : JSONValue.object(args).bytes(),
            before: page.cursor
        )
        let callbacks = try await store.list(filter, limit: page.limit + 1)
        return page.response(callbacks, cursor: \.id) { callback, json in
            json.member("id", callback.id.lowercased)
            json.member("resource_id", callback.resourceID)
            json.member("chat_type", callback.chatType)
            json.member("hash_chat_id", callback.hashChatID)
            json.member("template_id", callback.templateID)
            json.member("args", JSONFragment(callback.args))
            json.member("received_at", callback.receivedAt.rfc3339)
        }
    }
}
