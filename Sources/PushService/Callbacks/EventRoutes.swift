internal import EventLoop
internal import FoundationEssentials
internal import HTTPServer
internal import HTTPTypes
internal import JSON
internal import Logging

/// `/kakao/unlink`, which Kakao calls, and `/v1/events`, where operators read what came.
struct EventRoutes: Sendable {
    let authenticator: Authenticator
    /// The app's number at Kakao. Without it nobody could say whose users a notice is about, and there is no `/kakao/unlink`.
    let appID: String?
    let store: EventStore
    let sync: DeviceSync
    let logger: Logger

    func add(to router: inout Router) {
        router.on(.get, "/v1/events", list)
        guard let appID else { return }
        router.on(.get, "/kakao/unlink") { try await receive($0, appID) }
        router.on(.post, "/kakao/unlink") { try await receive($0, appID) }
    }

    /// 200 once the notice is committed and the devices are withdrawn, also for a user who has none. Kakao waits for 3 s and does not call
    /// again: the Push API is told in the background, and a caller that hangs up changes nothing.
    private func receive(_ request: Request, _ appID: String) async throws -> Response {
        try authenticator.requireKakao(request)
        let event = try KakaoEvent(unlink: request, appID: appID)
        let withdrawn = try await request.uninterrupted { try await store.insertWithdrawingDevices(event) }
        if withdrawn > 0 {
            logger.info(
                "A user has unlinked the app; the devices are withdrawn",
                metadata: ["user_id": "\(event.userID ?? 0)", "devices": "\(withdrawn)"]
            )
            sync.wakeup.signal()
        }
        return Response(.ok)
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
