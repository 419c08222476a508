import Endpoints
import HTTPServer
import HTTPTypes
import ServiceKit

/// `/kakao/push/feedback/{secret}`, where Kakao reports push tokens that it could not deliver to (`return_url`, Kakao
/// Push).
///
/// Kakao does not sign these requests, so the address itself is the secret.
struct FeedbackRoutes: RouteCollection {
    static let path = "/kakao/push/feedback/"

    static let title = "Kakao: failed push tokens"
    static let operations = [receiving]

    let intake: CallIntake

    private static let receiving = Operation(
        "receiveTokenFailure",
        .post,
        "\(path){secret}",
        .kakaoAddress,
        "Counts a failed delivery to a push token. Needs `feedback.secret`.",
        body: .fields(TokenFailure.fields),
        unknownFields: .kept,
        maximumBodyBytes: RequestSize.small,
        answers: [.empty(.ok, "The report is stored.")],
        handler: receive
    )

    /// Responds with 200 to each report. Without a user and a token, nothing follows from it.
    @Sendable private func receive(_ call: Call) async throws -> Response {
        try await intake.receive(.feedback, call.request) {
            var reader = KakaoCallReader(call)
            let failure = TokenFailure(&reader).map(ReceivedCall.tokenFailure)
            guard let failure, !reader.isMalformed else { return .malformed(failure) }
            return .understood(failure)
        }
        return Response(.ok)
    }
}
