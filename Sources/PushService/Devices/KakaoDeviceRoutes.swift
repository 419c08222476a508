internal import HTTPServer
internal import HTTPTypes
internal import JSON
internal import KakaoAPI

/// `/v1/push/register`, `/tokens` and `/deregister` as Kakao shapes them, and `/v2/push/*`.
struct KakaoDeviceRoutes: Sendable {
    let authenticator: Authenticator
    let sync: DeviceSync

    func add(to router: inout Router) {
        for version in PushVersion.allCases {
            router.on(.post, "\(version.path)/register") { try await register($0, version) }
            router.on(.get, "\(version.path)/tokens") { try await tokens($0, version) }
            router.on(.post, "\(version.path)/tokens") { try await tokens($0, version) }
            router.on(.post, "\(version.path)/deregister") { try await deregister($0, version) }
        }
    }

    /// Stores a registration, then tells Kakao: 200 and the days until the token expires, or 202 if Kakao is yet to hear of it.
    private func register(_ request: Request, _ version: PushVersion) async throws -> Response {
        let caller = try await authenticator.requireDeviceCaller(request)
        let parameters = try Parameters(request)
        let registration = try DeviceRegistration(parameters, Self.key(parameters, version, caller))
        guard let lifetime = try await sync.register(registration) else { return .pending }
        return .json(Array(lifetime.answer.utf8))
    }

    /// The devices of one user or of several, as Kakao lists them.
    private func tokens(_ request: Request, _ version: PushVersion) async throws -> Response {
        let caller = try await authenticator.requireDeviceCaller(request)
        let tokens = try await sync.store.pushTokens(ofUsers: Self.userIDs(try Parameters(request), caller))
        var json = JSONWriter()
        json.array { json in
            for token in tokens {
                json.object { json in
                    json.member("user_id", String(token.userID))
                    json.member("device_id", token.deviceID)
                    json.member("push_type", token.pushType.name(in: version))
                    json.member("push_token", token.pushToken)
                    json.member("created_at", token.createdAt)
                    json.member("updated_at", token.updatedAt)
                }
            }
        }
        return .json(json.bytes)
    }

    /// Takes a device back: 200 and an empty body, or 202 if Kakao is yet to hear of it.
    private func deregister(_ request: Request, _ version: PushVersion) async throws -> Response {
        let caller = try await authenticator.requireDeviceCaller(request)
        let isForgotten = try await sync.withdraw(Self.key(try Parameters(request), version, caller))
        return isForgotten ? .json([]) : .pending
    }

    /// The users whose devices are asked for: `uuid` or `uuids`; by a user's app its own, named or not.
    private static func userIDs(_ parameters: Parameters, _ caller: DeviceCaller) throws -> [Int64] {
        guard !parameters.has("uuid") || !parameters.has("uuids"),
            caller != .operator || parameters.has("uuid") || parameters.has("uuids")
        else { throw Problem.field("uuid", "given, or uuids, and not both") }
        guard parameters.has("uuids") else { return [try caller.userID(parameters)] }
        let userIDs = try parameters.userIDs("uuids", count: 1...KakaoPushAPI.maximumUsers)
        try caller.require(userIDs, "uuids")
        return userIDs
    }

    private static func key(
        _ parameters: Parameters,
        _ version: PushVersion,
        _ caller: DeviceCaller
    ) throws -> DeviceKey {
        let userID = try caller.userID(parameters)
        let deviceID = try parameters.text("device_id", length: DeviceKey.idLength)
        guard let name = parameters.anyText("push_type"), let pushType = PushType(name: name, version: version) else {
            throw Problem.field("push_type", PushType.allCases.map { $0.name(in: version) }.joined(separator: " or "))
        }
        return DeviceKey(userID: userID, deviceID: deviceID, pushType: pushType)
    }
}

extension TokenLifetime {
    /// As Kakao answers it: a bare number.
    fileprivate var answer: String {
        switch self {
        case .days(let days): String(days)
        case .never: "-1"
        }
    }
}
