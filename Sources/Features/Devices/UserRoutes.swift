import Endpoints
import HTTPServer
import HTTPTypes
import Runtime
import Schemas
import ServiceKit

/// The operators' operations for one user: `GET /v1/users/{user_id}/devices`, `POST /v1/users/{user_id}/sync`, `DELETE
/// /v1/users/{user_id}`.
struct UserRoutes: RouteCollection {
    static let title = "Users"
    static let operations = [listing, reconciling, deleting]

    let registrar: DeviceRegistrar
    let lifecycle: UserLifecycle
    let observers: UserLifecycle.Observers
    let loop: LoopServices

    private static let userID = Field.path("user_id", .userID, "The user.")

    private static let listing = Operation(
        "listDevicesOfUser",
        .get,
        "/v1/users/{user_id}/devices",
        .operator(.read),
        "Lists the devices of a user.",
        path: [userID],
        query: Page<DeviceCursor>.fields,
        answers: [.page(of: Device.shape, "The devices, sorted by their ids.")],
        auditing: .lookup { .user(try $0[userID]) },
        handler: list
    )

    @Sendable private func list(_ call: Call) async throws -> Response {
        try await registrar.devices(ofUser: call[Self.userID], on: Page(call))
    }

    private static let deleting = Operation(
        "deleteUser",
        .delete,
        "/v1/users/{user_id}",
        .operator(.devices),
        "Deletes all data of a user, and the user's devices at Kakao.",
        path: [userID],
        answers: [.empty(.noContent, "The data is deleted."), .pending],
        auditing: .ahead { .user(try $0[userID]) },
        asksForKey: true,
        handler: delete
    )

    /// Deletes the data of a user. Responds 204, or 202 if a call to Kakao is pending.
    @Sendable private func delete(_ call: Call) async throws -> Response {
        let userID = try call[Self.userID]
        // A client that gives up must not leave a part of the data.
        let isDone = try await call.request.uninterrupted { [lifecycle, observers, loop] in
            try await lifecycle.erase(userID, observers, on: loop)
        }
        return isDone ? Response(.noContent) : .pending
    }

    private static let dryRun = Field.flag(
        "dry_run",
        "Whether to only show the differences. Nothing is changed here or at Kakao."
    )

    private static let reconciling = Operation(
        "reconcileUser",
        .post,
        "/v1/users/{user_id}/sync",
        .operator(.devices),
        "Compares the devices of a user with Kakao's list, and resolves the differences.",
        path: [userID],
        body: .fields([dryRun]),
        answers: [
            .json(.ok, Reconciliation.shape, "Nothing differs, or the result of a dry run."),
            .json(.accepted, Reconciliation.shape, "The differences, which are being resolved."),
        ],
        problems: [.kakaoUnavailable, .badGateway, .serverRefused],
        auditing: .handler,
        handler: reconcile
    )

    /// Reconciles the devices of a user with Kakao's list. Responds 200 if nothing differs, or 202 with the
    /// differences, which are being resolved. A dry run responds 200 with the differences, which remain.
    @Sendable private func reconcile(_ call: Call) async throws -> Response {
        let userID = try call[Self.userID]
        let isDryRun = try call[Self.dryRun]
        let subject = AuditSubject.user(userID, object: isDryRun ? Self.dryRun.name : nil)
        let differences = try await registrar.reconcileDevices(
            ofUser: userID,
            isDryRun: isDryRun,
            recording: call.auditRecord(of: subject)
        )
        let result = Reconciliation(userID: userID, isDryRun: isDryRun, differences: differences)
        return .json(
            Reconciliation.shape.json(result),
            status: isDryRun || differences.isEmpty ? .ok : .accepted
        )
    }
}

/// The result of a comparison with Kakao's list of devices.
private struct Reconciliation: Sendable {
    let userID: Int64
    let isDryRun: Bool
    let differences: [DeviceDifference]

    static let shape = Shape<Reconciliation>(
        "Reconciliation",
        [
            .member("user_id", .userID, "The user.", \.userID),
            .member("dry_run", .boolean, "Whether nothing was changed.", \.isDryRun),
            .array("differences", DeviceDifference.shape.kind, "The devices that differ.", \.differences),
        ]
    )
}
