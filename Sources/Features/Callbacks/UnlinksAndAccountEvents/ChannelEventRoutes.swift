import Endpoints
import HTTPServer
import HTTPTypes

/// `/kakao/channel`, which Kakao calls when a person has added or blocked one of the company's KakaoTalk channels.
struct ChannelEventRoutes: RouteCollection {
    static let title = "Kakao: events of channels"
    static let operations = [receiving]

    let intake: CallIntake

    private static let receiving = Operation(
        "receiveChannelEvent",
        .post,
        "/kakao/channel",
        .kakao,
        "Stores that a person has added or blocked one of the company's KakaoTalk channels.",
        headers: [Call.kakaoResourceID],
        body: .fields(KakaoEvent.channelFields),
        unknownFields: .kept,
        maximumBodyBytes: RequestSize.small,
        answers: [.empty(.ok, "The event is stored.")],
        handler: receive
    )

    /// Responds with 200 once the event is committed and the user's devices, if any, have their tags; or once it is in the journal.
    @Sendable private func receive(_ call: Call) async throws -> Response {
        try await intake.receive(.channel, call.request) {
            let event = KakaoEvent(channel: call)
            return event.raw == nil ? .understood(.events([event])) : .malformed(.events([event]))
        }
        return Response(.ok)
    }
}
