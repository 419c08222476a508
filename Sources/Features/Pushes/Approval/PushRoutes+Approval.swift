import Endpoints
import HTTPServer
import HTTPTypes
import Schemas

// Approval of pushes: an operator other than the creator agrees to a push, or rejects it.
extension PushRoutes {
    static let approving = Operation<PushRoutes>(
        OperationDeclaration(
            "approvePush",
            .post,
            "/v1/pushes/{id}/approve",
            .operator(.approve),
            "Approves a push that another key has created. It is then sent.",
            path: [id],
            answers: [.json(.ok, PushSummary.shape, "The push.")],
            problems: [.notFound, .wrongState, .ownPush],
            auditing: .handler
        )
    ) { routes in { try await routes.decide($0, .approve) } }

    private static let reason = Field.optional("reason", .text(1...500), "Why, for the other operators.")

    static let rejecting = Operation<PushRoutes>(
        OperationDeclaration(
            "rejectPush",
            .post,
            "/v1/pushes/{id}/reject",
            .operator(.approve),
            "Rejects a push that waits for an approval. It is then canceled.",
            path: [id],
            body: .fields([reason]),
            answers: [.json(.ok, PushSummary.shape, "The push.")],
            problems: [.notFound, .wrongState, .ownPush],
            auditing: .handler
        )
    ) { routes in { try await routes.decide($0, .reject(reason: $0[reason])) } }

    private func decide(_ call: Call, _ decision: PushStore.Decision) async throws -> Response {
        let id = try Self.id(call)
        guard let key = call.caller.key else { throw Self.notFound }
        var reason: String?
        if case .reject(let given) = decision { reason = given }
        let record = call.auditRecord(of: .object(id.lowercased), reason: reason)
        guard try await !store.decide(id, decision, by: key, recording: record) else {
            notices.pushChanged()
            return try await summary(id)
        }
        try await store.expireProposals()
        guard let push = try await pushes.summary(id) else { throw Self.notFound }
        if push.awaitsApproval || push.approvedAt != nil, push.createdByKey == key.id {
            throw Problem(
                of: .ownPush,
                "This key has created the push. Approve or reject it with another one, or cancel it with POST /v1/pushes/{id}/cancel."
            )
        }
        switch decision {
        case .approve where push.approvedAt != nil && push.state != .canceled: break
        case .reject where push.state == .canceled: break
        case .approve: throw Self.cannot("approve", push)
        case .reject: throw Self.cannot("reject", push)
        }
        return .json(PushSummary.shape.json(push))
    }
}

extension ProblemKind {
    fileprivate static let ownPush = ProblemKind(
        .conflict,
        "own-push",
        "The push needs the approval of another key than the one that created it."
    )
}
