internal import HTTPServer
internal import HTTPTypes

/// `/kakao/push/feedback/{secret}`, where Kakao reports push tokens that it could not deliver to (`return_url`, Kakao
/// Push).
///
/// Kakao does not sign these requests, so the address itself is the secret.
struct FeedbackRoutes: Sendable {
    static let path = "/kakao/push/feedback/"

    let secret: Secret?
    let intake: CallIntake

    func add(to router: inout ServiceRouter) {
        guard let secret else { return }
        router.on(
            .post,
            "\(Self.path){secret}",
            .kakaoAddress(secret),
            bodyLimit: ServiceRouter.smallBody,
            receive
        )
    }

    private func receive(_ request: Request) async throws -> Response {
        try await intake.keep(.tokenFailure(TokenFailure(request)), request)
        return Response(.ok)
    }
}
