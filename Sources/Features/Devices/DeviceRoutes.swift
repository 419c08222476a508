import Endpoints
import HTTPServer
import HTTPTypes
import Identity
import KakaoAPI
import Postgres
import Runtime
import Schemas

/// The operations below `/v1/devices`: the devices of the user of an access token or, with an operator key, of the user
/// in `uuid`.
struct DeviceRoutes: RouteCollection {
    /// The prefix of paths with a device id. The id is not logged, because Kakao's documentation uses the push token as
    /// the device id of an iPhone.
    static let path = "/v1/devices/"

    static let title = "Devices"
    static let operations = [listing, registering, withdrawing]

    let registrar: DeviceRegistrar

    private static let deviceID = Field.path("device_id", .text(DeviceKey.idLength), DeviceKey.idDescription)

    // MARK: Listing

    private static let listing = Operation(
        "listDevices",
        .get,
        "/v1/devices",
        .device,
        "Lists the devices of a user.",
        query: [Call.user] + Page<DeviceCursor>.fields,
        answers: [.page(of: Device.shape, "The devices, sorted by their ids.")],
        auditing: .lookup { .user(try $0.userID(Call.user)) },
        handler: list
    )

    @Sendable private func list(_ call: Call) async throws -> Response {
        let page = try Page<DeviceCursor>(call)
        return try await registrar.devices(ofUser: call.userID(Call.user), on: page)
    }

    // MARK: Registering

    private static let pushType = Field.required(
        "push_type",
        .pushType,
        "The service that delivers to the device. `gcm` is a former name of `fcm`."
    )

    private static let registering = Operation(
        "putDevice",
        .put,
        path + "{device_id}",
        .device,
        "Registers the push token of a device, here and at Kakao.",
        path: [deviceID],
        query: [Call.user],
        body: .fields([Call.user, pushType] + DeviceRegistration.fields),
        maximumBodyBytes: RequestSize.small,
        answers: [
            .json(.ok, Device.shape, "The device, which was known."),
            .json(.created, Device.shape, "The device, which is new."),
            .json(.accepted, Device.shape, "The device, which Kakao has not confirmed yet."),
        ],
        problems: DeviceRegistrar.problems + [.conflict],
        handler: register
    )

    /// Stores a registration, then calls Kakao. Responds with the device: 201 if it is new, 200 if it was known, 202 if
    /// the call to Kakao is pending.
    @Sendable private func register(_ call: Call) async throws -> Response {
        let key = DeviceKey(
            userID: try call.userID(Call.user),
            deviceID: try call[Self.deviceID],
            pushType: try call[Self.pushType]
        )
        _ = try await registrar.register(DeviceRegistration(call, key))
        let devices = try await registrar.store.pool.read(FindDevices(userID: key.userID, deviceID: key.deviceID))
        guard let device = devices.first(where: { $0.key == key }) else {
            throw Problem(of: .conflict, "The device was changed by a concurrent request. Try again.")
        }
        return device.response
    }

    // MARK: Withdrawing

    private static let withdrawnType = Field.optional(
        "push_type",
        .pushType,
        "The push type to remove. Without it, all push types of the device are removed."
    )

    private static let withdrawing = Operation(
        "deleteDevice",
        .delete,
        path + "{device_id}",
        .device,
        "Removes a device, here and at Kakao.",
        path: [deviceID],
        query: [Call.user, withdrawnType],
        body: .fields([Call.user, withdrawnType]),
        maximumBodyBytes: RequestSize.small,
        answers: [.empty(.noContent, "The device is removed."), .pending],
        auditing: .ahead { .user(try $0.userID(Call.user)) },
        handler: withdraw
    )

    /// Withdraws a device, of `push_type` or of all its push types. Responds 204, or 202 if a call to Kakao is pending.
    ///
    /// Kakao is called even for a device that is unknown here, because Kakao may know it.
    @Sendable private func withdraw(_ call: Call) async throws -> Response {
        let userID = try call.userID(Call.user)
        let deviceID = try call[Self.deviceID]
        var pushTypes: [PushType]
        if let pushType = try call[Self.withdrawnType] {
            pushTypes = [pushType]
        } else {
            let devices = try await registrar.store.pool.read(FindDevices(userID: userID, deviceID: deviceID))
            pushTypes = devices.map(\.key.pushType)
            if pushTypes.isEmpty { pushTypes = PushType.allCases }
        }
        var isDeregistered = true
        for pushType in pushTypes {
            let key = DeviceKey(userID: userID, deviceID: deviceID, pushType: pushType)
            if try await !registrar.withdraw(key, by: call.caller.keyName) { isDeregistered = false }
        }
        return isDeregistered ? Response(.noContent) : .pending
    }
}

extension DeviceRegistrar {
    /// Returns a page of a user's devices in the order of their ids.
    func devices(ofUser userID: Int64, on page: Page<DeviceCursor>) async throws -> Response {
        let list = ListDevices(userID: userID, after: page.cursor, limit: page.limit + 1)
        return page.response(try await store.pool.read(list), Device.shape) { DeviceCursor($0.key) }
    }
}

extension Kind where Value == PushType {
    /// A push type by its name in any version of Kakao's API.
    fileprivate static var pushType: Kind {
        Kind(
            text: .choice(PushType.storedNames + ["gcm"]),
            allowed: "apns or fcm",
            parse: { PushType(name: $0) },
            format: \.storedName
        )
    }
}

extension Device {
    /// The response to a registration of the device.
    fileprivate var response: Response {
        let json = Self.shape.json(self)
        guard isConfirmed else { return .json(json, status: .accepted) }
        // A device that was known before keeps its time of creation.
        return .json(json, status: createdAt == updatedAt ? .created : .ok)
    }
}
