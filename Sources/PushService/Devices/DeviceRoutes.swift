internal import FoundationEssentials
internal import HTTPServer
internal import HTTPTypes
internal import JSON
internal import KakaoAPI

/// `/v1/push/register`, `/tokens` and `/deregister` as Kakao shapes them (and `/v2/push/*`), and `/v1/users/{uuid}/devices`.
struct DeviceRoutes: Sendable {
    let authenticator: Authenticator
    let store: DeviceStore
    let sync: DeviceSync

    func add(to router: inout Router) {
        for version in PushVersion.allCases {
            router.on(.post, "\(version.path)/register") { try await register($0, version) }
            router.on(.get, "\(version.path)/tokens") { try await tokens($0, version) }
            router.on(.post, "\(version.path)/tokens") { try await tokens($0, version) }
            router.on(.post, "\(version.path)/deregister") { try await deregister($0, version) }
        }
        router.on(.get, "/v1/users/{uuid}/devices", devicesOfUser)
    }

    // MARK: Kakao-shaped

    /// Stores a registration, then tells Kakao: 200 and the days until the token expires, or 202 if Kakao is yet to hear of it.
    private func register(_ request: Request, _ version: PushVersion) async throws -> Response {
        let caller = try await authenticator.requireDeviceCaller(request)
        let parameters = try Parameters(request)
        let registration = DeviceRegistration(
            key: try Self.key(parameters, version, caller),
            pushToken: try parameters.text("push_token", length: 1...4096),
            locale: try parameters.optionalText("locale", length: 1...35),
            timezone: try parameters.optionalText("timezone", length: 1...64),
            appVersion: try parameters.optionalText("app_version", length: 1...64),
            tags: try parameters.texts("tags", count: 50, length: 1...64)
        )
        var unsettled = try await store.register(registration)[...]
        while let device = unsettled.popFirst() {
            guard !device.mustWait else {
                try await sync.postpone(device)
                return Self.accepted
            }
            switch try await sync.settle(device) {
            case .registered(let lifetime):
                return .json(Array(lifetime.answer.utf8))
            case .deregistered:
                continue
            case .postponed:
                // The token's former user is still registered at Kakao: its new user has to wait for that.
                for waiting in unsettled { try await sync.postpone(waiting) }
                return Self.accepted
            case .refused(let error):
                throw Self.problem(error)
            }
        }
        return Self.accepted
    }

    /// The devices of one user or of several, as Kakao lists them.
    private func tokens(_ request: Request, _ version: PushVersion) async throws -> Response {
        let caller = try await authenticator.requireDeviceCaller(request)
        let devices = try await store.devices(ofUsers: Self.userIDs(try Parameters(request), caller))
        var json = JSONWriter()
        json.array { json in
            for device in devices {
                json.object { json in
                    json.member("user_id", String(device.key.userID))
                    json.member("device_id", device.key.deviceID)
                    json.member("push_type", device.key.pushType.name(in: version))
                    json.member("push_token", device.pushToken)
                    json.member("created_at", device.createdAt.rfc3339Seconds)
                    json.member("updated_at", device.updatedAt.rfc3339Seconds)
                }
            }
        }
        return .json(json.bytes)
    }

    /// Takes a device back: 200 and an empty body, or 202 if Kakao is yet to hear of it.
    private func deregister(_ request: Request, _ version: PushVersion) async throws -> Response {
        let caller = try await authenticator.requireDeviceCaller(request)
        let key = try Self.key(try Parameters(request), version, caller)
        guard let device = try await store.withdraw(key), case .deregistered = try await sync.settle(device) else {
            return Self.accepted
        }
        return .json([])
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
        let deviceID = try parameters.text("device_id", length: 1...64)
        let names = PushType.allCases.map { $0.name(in: version) }.joined(separator: " or ")
        guard let name = parameters.anyText("push_type"), let pushType = PushType(name: name, version: version) else {
            throw Problem.field("push_type", names)
        }
        return DeviceKey(userID: userID, deviceID: deviceID, pushType: pushType)
    }

    /// Stored, and told to Kakao as soon as Kakao answers.
    private static var accepted: Response {
        var json = JSONWriter()
        json.object { $0.member("state", "pending") }
        return .json(json.bytes, status: .accepted)
    }

    /// What Kakao refused is the caller's to mend, in Kakao's words.
    private static func problem(_ error: KakaoError) -> Problem {
        guard case .refused(let status, let code, let message) = error.kind else {
            return Problem(.badGateway, "Kakao did not take the registration.")
        }
        return Problem(
            HTTPResponse.Status(code: (400..<500).contains(status) ? status : 400),
            code: code?.rawValue,
            kind: "refused-by-kakao",
            message.isEmpty ? "Kakao refuses the registration." : "Kakao refuses the registration: \(message)"
        )
    }

    // MARK: For operators

    /// A user's devices with all that is known of them but their tokens, which are masked.
    private func devicesOfUser(_ request: Request) async throws -> Response {
        try await authenticator.requireOperator(request, .read)
        guard let userID = Int64(decimal: request.pathParameter("uuid")), userID > 0 else {
            throw Problem.field("uuid", "an integer from 1 to 9223372036854775807")
        }
        let devices = try await store.devices(ofUsers: [userID])
        var json = JSONWriter()
        json.object { json in
            json.array("items") { json in
                for device in devices {
                    json.object { Self.write(device, to: &$0) }
                }
            }
            json.member("next", String?.none)
        }
        return .json(json.bytes)
    }

    private static func write(_ device: Device, to json: inout JSONWriter.Members) {
        json.member("user_id", String(device.key.userID))
        json.member("device_id", device.key.deviceID)
        json.member("push_type", device.key.pushType.storedName)
        json.member("push_token", device.pushToken.masked)
        json.member("state", device.isSettled ? "registered" : "pending")
        json.member("locale", device.locale)
        json.member("timezone", device.timezone)
        json.member("app_version", device.appVersion)
        json.array("tags") { json in
            for tag in device.tags { json.element(tag) }
        }
        json.member("failures", device.failures)
        json.member("expires_at", device.expiresAt?.rfc3339)
        json.member("created_at", device.createdAt.rfc3339)
        json.member("updated_at", device.updatedAt.rfc3339)
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

extension String {
    /// A push token as it may be shown: enough to tell two apart, too little to send to.
    var masked: String {
        utf8.count > 16 ? "\(prefix(4))…\(suffix(4))" : "…"
    }
}
