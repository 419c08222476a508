internal import EventLoop
internal import FoundationEssentials
internal import HTTPServer
internal import HTTPTypes
internal import Logging

/// `/kakao/push/feedback/{secret}`: where Kakao reports a token that it could not deliver to (`return_url`, Kakao Push).
///
/// Kakao signs nothing here, so that the address itself is the secret.
struct FeedbackRoutes: Sendable {
    static let path = "/kakao/push/feedback/"

    let secret: Secret?
    let pruneAfterFailures: Int
    let store: DeviceStore
    let sync: DeviceSync
    let logger: Logger

    func add(to router: inout Router) {
        guard let secret else { return }
        router.on(.post, "\(Self.path){secret}") { try await receive($0, secret) }
    }

    private func receive(_ request: Request, _ secret: Secret) async throws -> Response {
        guard secret.matches(request.pathParameter("secret")) else {
            throw Problem(.notFound, "There is nothing at this path.")
        }
        let parameters = try Parameters(request)
        let userID = try parameters.userID("userId")
        let pushToken = try parameters.text("pushToken", length: 1...4096)
        let milliseconds = try parameters.optionalInteger("date", in: 0...253_402_300_799_999)
        let date = milliseconds.map { Date(timeIntervalSince1970: Double($0) / 1000) } ?? Date()
        // Kakao does not say it again: it counts even if Kakao hangs up meanwhile.
        let isWithdrawn = try await request.uninterrupted {
            try await store.noteFailure(
                userID: userID,
                pushToken: pushToken,
                at: date,
                pruneAfter: pruneAfterFailures
            )
        }
        if isWithdrawn {
            logger.info("A token keeps failing; its device is withdrawn", metadata: ["user_id": "\(userID)"])
            sync.wakeup.signal()
        }
        return Response(.ok)
    }
}
