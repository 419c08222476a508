internal import HTTPServer
internal import HTTPTypes
internal import JSON
internal import KakaoAPI

/// The operators' routes for one user: `GET /v1/users/{uuid}/devices`, `POST /v1/users/{uuid}/sync`, `DELETE
/// /v1/users/{uuid}`.
struct UserRoutes: Sendable {
    let registrar: DeviceRegistrar
    let events: EventStore
    let callbacks: LinkCallbackStore
    /// The custom argument of Link callbacks that contains a user id, if any.
    let userIDArgument: String?

    func add(to router: inout ServiceRouter) {
        router.on(.get, "/v1/users/{uuid}/devices", .operator(.read), devices)
        router.on(.delete, "/v1/users/{uuid}", .operator(.devices), forget)
        router.on(.post, "/v1/users/{uuid}/sync", .operator(.devices), reconcile)
    }

    private func devices(_ request: Request) async throws -> Response {
        let userID = try Self.userID(request)
        let page = try Page<DeviceCursor>(Parameters(request))
        return page.response(
            try await registrar.store.devices(ofUser: userID, after: page.cursor, limit: page.limit + 1)
        )
    }

    /// Deletes the data of a user. Responds 204, or 202 if a call to Kakao is pending.
    private func forget(_ request: Request) async throws -> Response {
        let userID = try Self.userID(request)
        try await events.remove(userID: userID)
        if let userIDArgument { try await callbacks.remove(userID: userID, fromArgument: userIDArgument) }
        return try await registrar.forgetDevices(ofUser: userID) ? Response(.noContent) : .pending
    }

    /// Reconciles the devices of a user with Kakao's list. Responds 200 if nothing differs, or 202 with the
    /// differences, which are being resolved.
    private func reconcile(_ request: Request) async throws -> Response {
        let userID = try Self.userID(request)
        let differences = try await registrar.reconcileDevices(ofUser: userID)
        var json = JSONWriter()
        json.object { json in
            json.member("user_id", String(userID))
            json.array("differences") { json in
                for difference in differences {
                    json.object { json in
                        json.member("device_id", difference.key.deviceID)
                        json.member("push_type", difference.key.pushType.storedName)
                        json.member("difference", difference.kind.rawValue)
                    }
                }
            }
        }
        return .json(json.bytes, status: differences.isEmpty ? .ok : .accepted)
    }

    private static func userID(_ request: Request) throws -> Int64 {
        guard let userID = Int64(decimal: request.pathParameter("uuid")), userID > 0 else {
            throw Problem.field("uuid", "an integer from 1 to 9223372036854775807")
        }
        return userID
    }
}
