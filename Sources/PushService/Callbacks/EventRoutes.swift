internal import EventLoop
internal import FoundationEssentials
internal import HTTPClient
internal import HTTPServer
internal import HTTPTypes
internal import JSON
internal import Logging

/// `/kakao/unlink` and `/kakao/account-events`, which Kakao calls, and `/v1/events`, where operators read what came.
struct EventRoutes: Sendable {
    let authenticator: Authenticator
    /// The app's number at Kakao. Without it nobody could say whose users a notice is about, and there is no `/kakao/unlink`.
    let appID: String?
    /// Who believes account events. Without a key of the app none could be for it, and there is no `/kakao/account-events`.
    let verifier: TokenVerifier?
    /// Of the same loop as `store`.
    let client: HTTPClient
    let store: EventStore
    let sync: DeviceSync
    let logger: Logger

    func add(to router: inout Router) {
        router.on(.get, "/v1/events", list)
        if let appID {
            router.on(.get, "/kakao/unlink") { try await receiveUnlink($0, appID) }
            router.on(.post, "/kakao/unlink") { try await receiveUnlink($0, appID) }
        }
        if let verifier {
            router.on(.post, "/kakao/account-events") { try await receiveAccountEvents($0, verifier) }
        }
    }

    /// 200 once the notice is committed and the devices are withdrawn, also for a user who has none.
    private func receiveUnlink(_ request: Request, _ appID: String) async throws -> Response {
        try authenticator.requireKakao(request)
        try await store([KakaoEvent(unlink: request, appID: appID)], request)
        return Response(.ok)
    }

    /// 202 once the events of a security event token are committed and acted on, 400 for a token that is not Kakao's to us (RFC 8935 §2).
    private func receiveAccountEvents(_ request: Request, _ verifier: TokenVerifier) async throws -> Response {
        do {
            try await store(accountEvents(request, verifier), request)
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
        if let objection = try await verifier.objection(to: token, client, on: request.loop) {
            throw SecurityEventRefusal(objection)
        }
        return events
    }

    /// Stores what Kakao told, and does what follows. Kakao waits for 3 s and does not call again: the Push API is told in the background, and
    /// a caller that hangs up changes nothing.
    private func store(_ events: [KakaoEvent], _ request: Request) async throws {
        let withdrawn = try await request.uninterrupted { try await store.insert(events) }
        guard withdrawn > 0 else { return }
        logger.info(
            "A user has left the app; the devices are withdrawn",
            metadata: [
                "type": "\(events.map(\.type).joined(separator: " "))",
                "user_id": "\(events.compactMap(\.userID).map { String($0) }.joined(separator: " "))",
                "devices": "\(withdrawn)",
            ]
        )
        sync.wakeup.signal()
    }

    private func list(_ request: Request) async throws -> Response {
        try await authenticator.requireOperator(request, .read)
        let parameters = try Parameters(request)
        let page = try Page<UUID>(parameters)
        let type = try parameters.optionalText("type", length: 1...255)
        let events = try await store.list(type: type, before: page.cursor, limit: page.limit + 1)
        return page.response(events, cursor: \.id) { event, json in
            json.member("id", event.id.lowercased)
            json.member("type", event.type)
            json.member("user_id", event.userID.map { String($0) })
            json.member("referrer_type", event.referrerType)
            json.member("payload", JSONFragment(event.payload))
            json.member("received_at", event.receivedAt.rfc3339)
        }
    }
}
