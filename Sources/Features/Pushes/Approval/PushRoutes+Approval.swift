import Endpoints
import HTTPServer
import HTTPTypes
import Runtime
import Schemas

// Approval of pushes: an operator other than the creator agrees to a push, or rejects it. Related keys, of which one was created
// with the other, count as one operator.
extension PushRoutes {
    static let approving = deciding(
        "approve",
        "Approves a push that another key has created. It is then sent."
    ) { _ in .approve }

    private static let reason = Field.optional("reason", .text(1...500), "Why, for the other operators.")

    static let rejecting = deciding(
        "reject",
        "Rejects a push that waits for an approval. It is then canceled.",
        body: .fields([reason])
    ) { .reject(reason: try $0[reason]) }

    private static func deciding(
        _ verb: String,
        _ summary: String,
        body: OperationDeclaration.Body = .none,
        _ decision: @escaping @Sendable (Call) throws -> PushStore.Decision
    ) -> Operation<PushRoutes> {
        Operation(
            "\(verb)Push",
            .post,
            "/v1/pushes/{id}/\(verb)",
            .operator(.approve),
            summary,
            path: [id],
            body: body,
            answers: [.json(.ok, PushSummary.shape, "The push.")],
            problems: [.notFound, .wrongState, .ownPush],
            auditing: .handler
        ) { routes in { try await routes.decide($0, decision($0)) } }
    }

    private func decide(_ call: Call, _ decision: PushStore.Decision) async throws -> Response {
        let id = try Self.id(call)
        guard let key = call.caller.key else { throw Self.notFound }
        var reason: String?
        if case .reject(let given) = decision { reason = given }
        let record = call.auditRecord(of: .object(id.lowercased), reason: reason)
        guard try await !store.decide(id, decision, by: key, hours: settings().hours, recording: record) else {
            notices.pushChanged()
            return .json(PushSummary.shape.json(try await push(id)))
        }
        if try await store.expireProposals() > 0 { notices.webhooks.send() }
        let push = try await push(id)
        if push.awaitsApproval || push.approvedAt != nil, try await store.isRelated(key, to: push.createdByKey) {
            let reason =
                push.createdByKey == key.id
                ? "This key has created the push."
                : "This key is related to the one that created the push: one was created with the other, directly or through keys in between."
            throw Problem(
                of: .ownPush,
                "\(reason) An unrelated key can approve or reject it. A key with the scope send or operate withdraws it: POST /v1/pushes/\(id.lowercased)/cancel."
            )
        }
        switch decision {
        case .approve where push.approvedAt != nil && push.state != .canceled: break
        case .reject where push.state == .canceled: break
        case .approve: throw Self.cannot(.approve, push)
        case .reject: throw Self.cannot(.reject, push)
        }
        return .json(PushSummary.shape.json(push))
    }
}

extension ProblemKind {
    fileprivate static let ownPush = ProblemKind(
        .conflict,
        "own-push",
        "The push needs the approval of a key that is not related to its creator's."
    )
}
