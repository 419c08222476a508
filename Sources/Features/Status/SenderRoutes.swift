import Endpoints
import HTTPServer
import HTTPTypes
import Logging
import Runtime
import Schemas
import ServiceKit

/// The switch that stops all pushes and KakaoTalk messages.
struct SenderRoutes: RouteCollection {
    static let title = "Sender"
    static let operations = [stopping, starting]

    let server: ServerContext

    private static let reason = Field.required(
        "reason",
        .text(1...500),
        "Why, for the others on call: status and logs show it."
    )

    private static let stopping = Operation(
        "stopSender",
        .post,
        "/v1/sender/stop",
        .operator(.operate),
        "Stops all pushes and KakaoTalk messages, on all servers, until the sender is started.",
        body: .fields([reason]),
        answers: [.json(.ok, SenderStatus.shape, "The sender.")],
        auditing: .handler,
        handler: stop
    )

    @Sendable private func stop(_ call: Call) async throws -> Response {
        let reason = try call[Self.reason]
        let name = call.caller.keyName ?? ""
        let stop = try await server.senderControl.stop(
            reason: reason,
            by: name,
            recording: call.auditRecord(of: .server, reason: reason)
        )
        server.logger.notice("Sender stopped", metadata: ["reason": "\(reason)", "key": "\(name)"])
        return response(stop)
    }

    private static let starting = Operation(
        "startSender",
        .post,
        "/v1/sender/start",
        .operator(.operate),
        "Starts a sender that was stopped: pushes and messages continue where they stopped.",
        answers: [.json(.ok, SenderStatus.shape, "The sender.")],
        auditing: .handler,
        handler: start
    )

    @Sendable private func start(_ call: Call) async throws -> Response {
        let stop = try await server.senderControl.start(recording: call.auditRecord(of: .server))
        server.logger.notice("Sender started", metadata: ["key": "\(call.caller.keyName ?? "")"])
        return response(stop)
    }

    private func response(_ stop: SenderControl.Stop?) -> Response {
        .json(SenderStatus.shape.json(SenderStatus(server.availability, SenderControl.Position(stop))))
    }
}
