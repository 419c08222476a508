internal import HTTPServer
internal import HTTPTypes
internal import JSON
internal import KakaoAPI

/// The routes below `/v1/devices`: the devices of the user of an access token or, with an operator key, of the user in
/// `uuid`.
struct DeviceRoutes: Sendable {
    /// The prefix of paths with a device id. The id is not logged, because Kakao's documentation uses the push token as
    /// the device id of an iPhone.
    static let path = "/v1/devices/"

    let registrar: DeviceRegistrar

    func add(to router: inout ServiceRouter) {
        router.on(.get, "/v1/devices", .deviceCaller, list)
        router.on(.put, Self.path + "{device_id}", .deviceCaller, bodyLimit: ServiceRouter.smallBody, register)
        router.on(.delete, Self.path + "{device_id}", .deviceCaller, bodyLimit: ServiceRouter.smallBody, withdraw)
    }

    private func list(_ request: Request) async throws -> Response {
        let caller = try request.deviceCaller()
        let parameters = try Parameters(request)
        try parameters.requireOnly(["uuid", "limit", "cursor"])
        let page = try Page<DeviceCursor>(parameters)
        let userID = try caller.userID(parameters)
        return page.response(
            try await registrar.store.devices(ofUser: userID, after: page.cursor, limit: page.limit + 1)
        )
    }

    /// Stores a registration, then calls Kakao. Responds with the device: 201 if it is new, 200 if it was known, 202 if
    /// the call to Kakao is pending.
    private func register(_ request: Request) async throws -> Response {
        let caller = try request.deviceCaller()
        let parameters = try Parameters(queryAndBodyOf: request)
        try parameters.requireOnly([
            "uuid", "push_type", "push_token", "locale", "timezone", "app_version", "tags",
        ])
        let key = DeviceKey(
            userID: try caller.userID(parameters),
            deviceID: try Self.deviceID(request),
            pushType: try Self.pushType(parameters)
        )
        _ = try await registrar.register(DeviceRegistration(parameters, key, caller))
        let devices = try await registrar.store.devices(ofUser: key.userID, named: key.deviceID)
        guard let device = devices.first(where: { $0.key == key }) else {
            throw Problem(
                .conflict,
                "The device was changed by a concurrent request. Try again."
            )
        }
        return device.response
    }

    /// Withdraws a device, of `push_type` or of all its push types. Responds 204, or 202 if a call to Kakao is pending.
    ///
    /// Kakao is called even for a device that is unknown here, because Kakao may know it.
    private func withdraw(_ request: Request) async throws -> Response {
        let caller = try request.deviceCaller()
        let parameters = try Parameters(queryAndBodyOf: request)
        try parameters.requireOnly(["uuid", "push_type"])
        let userID = try caller.userID(parameters)
        let deviceID = try Self.deviceID(request)
        var pushTypes: [PushType]
        if parameters.has("push_type") {
            pushTypes = [try Self.pushType(parameters)]
        } else {
            pushTypes = try await registrar.store.devices(ofUser: userID, named: deviceID).map(\.key.pushType)
            if pushTypes.isEmpty { pushTypes = PushType.allCases }
        }
        var isForgotten = true
        for pushType in pushTypes {
            let key = DeviceKey(userID: userID, deviceID: deviceID, pushType: pushType)
            if try await !registrar.withdraw(key) { isForgotten = false }
        }
        return isForgotten ? Response(.noContent) : .pending
    }

    private static func deviceID(_ request: Request) throws -> String {
        try Parameters.text(request.pathParameter("device_id"), "device_id", length: DeviceKey.idLength)
    }

    private static func pushType(_ parameters: Parameters) throws -> PushType {
        guard let pushType = parameters.anyText("push_type").flatMap({ PushType(name: $0) }) else {
            throw Problem.field("push_type", "apns or fcm")
        }
        return pushType
    }
}

extension Device {
    /// The response to a registration of the device.
    fileprivate var response: Response {
        var json = JSONWriter()
        json.object { write(to: &$0) }
        guard isConfirmed else { return .json(json.bytes, status: .accepted) }
        // A device that was known before keeps its time of creation.
        return .json(json.bytes, status: createdAt == updatedAt ? .created : .ok)
    }
}
