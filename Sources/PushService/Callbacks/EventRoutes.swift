internal import FoundationEssentials
internal import HTTPClient
internal import HTTPServer
internal import HTTPTypes
internal import JSON

/// `/kakao/unlink` and `/kakao/account-events`, which Kakao calls, and `/v1/events`, where operators read the events.
struct EventRoutes: Sendable {
    /// The app's id at Kakao. Without it there is no `/kakao/unlink`, since a notice could be about another app's user.
    let appID: String?
    /// The verifier of account events. Without a key of the app it is `nil`, and there is no `/kakao/account-events`.
    let verifier: TokenVerifier?
    /// The client of the same event loop as `store`.
    let client: HTTPClient
    let store: EventStore
    let intake: CallIntake

    func add(to router: inout ServiceRouter) {
        router.on(.get, "/v1/events", .operator(.read), list)
        if let appID {
            for method in [HTTPRequest.Method.get, .post] {
                router.on(method, "/kakao/unlink", .kakao, bodyLimit: ServiceRouter.smallBody) {
                    try await receiveUnlink($0, appID)
                }
            }
        }
        if let verifier {
            // The sender is authenticated by the signature of the body, not by the head.
            router.on(.post, "/kakao/account-events", .anyone, bodyLimit: 16 * 1024) {
                try await receiveAccountEvents($0, verifier)
            }
        }
    }

    /// Responds with 200 once the notice is committed and the user's devices, if any, are withdrawn; or once it is in
    /// the journal.
    private func receiveUnlink(_ request: Request, _ appID: String) async throws -> Response {
        try await intake.keep(.events([KakaoEvent(unlink: request, appID: appID)]), request)
        return Response(.ok)
    }

    /// Responds with 202 once the events of a security event token are committed and applied, or in the journal; with
    /// 400 for a malformed token or one that Kakao did not issue for this app (RFC 8935 §2).
    private func receiveAccountEvents(_ request: Request, _ verifier: TokenVerifier) async throws -> Response {
        do {
            try await intake.keep(.events(accountEvents(request, verifier)), request)
            return Response(.accepted)
        } catch let refusal as SecurityEventRefusal {
            return refusal.response
        }
    }

    /// Returns the events of a token that Kakao issued for this app.
    ///
    /// - Throws: ``SecurityEventRefusal``; ``Problem`` 503 when Kakao's keys cannot be fetched.
    private func accountEvents(_ request: Request, _ verifier: TokenVerifier) async throws -> [KakaoEvent] {
        guard request.contentType == "application/secevent+jwt" else {
            throw SecurityEventRefusal(.invalidRequest, "Unsupported Content-Type. Allowed: application/secevent+jwt.")
        }
        guard let token = JSONWebToken(String(decoding: request.body, as: UTF8.self), .securityEvent) else {
            throw SecurityEventRefusal(.invalidRequest, "The body must be a signed security event token.")
        }
        let events = try KakaoEvent.all(in: token)
        if let objection = try await verifier.objection(to: token, isUrgent: true, client, on: request.loop) {
            throw SecurityEventRefusal(objection)
        }
        return events
    }

    private func list(_ request: Request) async throws -> Response {
        let parameters = try Parameters(request)
        let page = try Page<UUID>(parameters)
        let type = try parameters.optionalText("type", length: 1...255)
        let events = try await store.list(
            type: type,
            storedSince: parameters.optionalTime("stored_since"),
            before: page.cursor,
            limit: page.limit + 1
        )
        return page.response(events, cursor: \.call.id) { stored, json in
            let event = stored.call
            json.member("id", event.id.lowercased)
            json.member("type", event.type)
            json.member("user_id", event.userID.map { String($0) })
            json.member("referrer_type", event.referrerType)
            json.member("payload", JSONFragment(event.payload))
            json.member("received_at", event.receivedAt.rfc3339)
            json.member("stored_at", stored.storedAt.rfc3339)
        }
    }
}
