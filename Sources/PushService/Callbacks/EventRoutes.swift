internal import FoundationEssentials
internal import HTTPClient
internal import HTTPServer
internal import HTTPTypes
internal import JSON

/// `/kakao/unlink` and `/kakao/account-events`, which Kakao calls, and `/v1/events`, where operators read what came.
struct EventRoutes: Sendable {
    /// The app's number at Kakao. Without it nobody could say whose users a notice is about, and there is no `/kakao/unlink`.
    let appID: String?
    /// Who believes account events. Without a key of the app none could be for it, and there is no `/kakao/account-events`.
    let verifier: TokenVerifier?
    /// Of the same loop as `store`.
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
            // The body is signed: who sends it cannot be told before.
            router.on(.post, "/kakao/account-events", .anyone, bodyLimit: 16 * 1024) {
                try await receiveAccountEvents($0, verifier)
            }
        }
    }

    /// 200 once the notice is committed and the devices are withdrawn, also for a user who has none; or once it is in the journal.
    private func receiveUnlink(_ request: Request, _ appID: String) async throws -> Response {
        try await intake.keep(.events([KakaoEvent(unlink: request, appID: appID)]), request)
        return Response(.ok)
    }

    /// 202 once the events of a security event token are committed and acted on, or in the journal, 400 for a token that is not Kakao's to us (RFC 8935 §2).
    private func receiveAccountEvents(_ request: Request, _ verifier: TokenVerifier) async throws -> Response {
        do {
            try await intake.keep(.events(accountEvents(request, verifier)), request)
            return Response(.accepted)
        } catch let refusal as SecurityEventRefusal {
            return refusal.response
        }
    }

    /// The events of a token that is Kakao's to us.
    ///
    /// - Throws: ``SecurityEventRefusal``; ``Problem`` 503 when Kakao's keys cannot be fetched.
    private func accountEvents(_ request: Request, _ verifier: TokenVerifier) async throws -> [KakaoEvent] {
        guard request.contentType == "application/secevent+jwt" else {
            throw SecurityEventRefusal(.invalidRequest, "Content-Type must be application/secevent+jwt.")
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
