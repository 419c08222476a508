internal import HTTPServer
internal import HTTPTypes
internal import JSON
internal import KakaoAPI

/// The routes `/v1/push/register`, `/tokens` and `/deregister` in the format of Kakao's API, and the same under
/// `/v2/push`.
struct KakaoDeviceRoutes: Sendable {
    let registrar: DeviceRegistrar

    func add(to router: inout ServiceRouter) {
        for version in PushVersion.allCases {
            func add(
                _ method: HTTPRequest.Method,
                _ name: String,
                _ handler: @escaping @Sendable (Request, PushVersion) async throws -> Response
            ) {
                router.on(method, "\(version.path)/\(name)", .deviceCaller, bodyLimit: ServiceRouter.smallBody) {
                    try await handler($0, version)
                }
            }
            add(.post, "register", register)
            add(.get, "tokens", tokens)
            add(.post, "tokens", tokens)
            add(.post, "deregister", deregister)
        }
    }

    /// Stores a registration, then calls Kakao. Responds 200 with the days until the token expires, or 202 if the call
    /// to Kakao is pending.
    private func register(_ request: Request, _ version: PushVersion) async throws -> Response {
        let caller = try request.deviceCaller()
        let parameters = try Parameters(request)
        let registration = try DeviceRegistration(parameters, Self.key(parameters, version, caller), caller)
        guard let lifetime = try await registrar.register(registration) else { return .pending }
        return .json(Array(lifetime.answer.utf8))
    }

    /// Lists the devices of one or more users in the order of user and device. Devices of users that are unknown here
    /// come from Kakao.
    ///
    /// A list of more than one page is streamed.
    private func tokens(_ request: Request, _ version: PushVersion) async throws -> Response {
        let caller = try request.deviceCaller()
        let userIDs = try Self.userIDs(try Parameters(request), caller)
        let store = registrar.store
        let first: DeviceStore.TokenPage
        var unknown: [Int64] = []
        if userIDs.count == 1, let userID = userIDs.first {
            first = try await store.pushTokens(ofUser: userID)
            if first.isUnknown { unknown = userIDs }
        } else {
            unknown = try await store.unknownUsers(among: userIDs)
            first = try await store.pushTokens(ofUsers: userIDs, after: nil)
        }
        // Kakao is called before the response begins: a list without these tokens would look complete.
        let listed = TokensAtKakao(unknown.isEmpty ? [] : try await registrar.tokensAtKakao(ofUsers: unknown))
        guard first.next != nil else { return .json(listed.merged(with: first).json(version)) }
        return .json { writer in
            var (page, listed) = (first, listed)
            // Each page is rendered as an array, and its brackets are replaced by the separators of one array.
            var opening = UInt8(ascii: "[")
            while true {
                var bytes = listed.takeMerged(with: page).json(version)
                bytes.removeLast()
                if bytes.count > 1 {
                    bytes[0] = opening
                    opening = UInt8(ascii: ",")
                } else {
                    bytes = []
                }
                guard let next = page.next else {
                    if opening == UInt8(ascii: "[") { bytes.append(opening) }
                    return try await writer.write(bytes + [UInt8(ascii: "]")])
                }
                if !bytes.isEmpty { try await writer.write(bytes) }
                page = try await store.pushTokens(ofUsers: userIDs, after: next)
            }
        }
    }

    /// Withdraws a device. Responds 200 with an empty body, or 202 if the call to Kakao is pending.
    private func deregister(_ request: Request, _ version: PushVersion) async throws -> Response {
        let caller = try request.deviceCaller()
        let isForgotten = try await registrar.withdraw(Self.key(try Parameters(request), version, caller))
        return isForgotten ? .json([]) : .pending
    }

    /// Returns the users in `uuid` or `uuids`, distinct and in order. A user's app may omit both, and may name only its
    /// own user.
    private static func userIDs(_ parameters: Parameters, _ caller: DeviceCaller) throws -> [Int64] {
        guard !parameters.has("uuid") || !parameters.has("uuids"),
            caller != .operator || parameters.has("uuid") || parameters.has("uuids")
        else { throw Problem.field("uuid", "specified, or uuids instead, but not both") }
        guard parameters.has("uuids") else { return [try caller.userID(parameters)] }
        let userIDs = try parameters.userIDs("uuids", count: 1...KakaoPushAPI.maximumUsers)
        try caller.require(userIDs, "uuids")
        return Set(userIDs).sorted()
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

/// Tokens that only Kakao has, which are merged into the pages of a list.
private struct TokensAtKakao: Sendable {
    /// The tokens that are not merged yet, in the order of their users.
    private var rest: ArraySlice<PushToken>

    init(_ tokens: [PushToken]) {
        rest = tokens.sorted { ($0.userID, $0.deviceID) < ($1.userID, $1.deviceID) }[...]
    }

    func merged(with page: DeviceStore.TokenPage) -> [PushToken] {
        var copy = self
        return copy.takeMerged(with: page)
    }

    /// Returns the page's tokens, merged with those of users that come between its own. The last page gets all that are
    /// left.
    mutating func takeMerged(with page: DeviceStore.TokenPage) -> [PushToken] {
        guard !rest.isEmpty else { return page.tokens }
        var merged: [PushToken] = []
        for token in page.tokens {
            while let first = rest.first, first.userID < token.userID {
                merged.append(first)
                rest.removeFirst()
            }
            merged.append(token)
        }
        if page.next == nil {
            merged += rest
            rest = []
        }
        return merged
    }
}

extension [PushToken] {
    /// Returns the tokens as JSON in the format of Kakao's API.
    fileprivate func json(_ version: PushVersion) -> [UInt8] {
        var json = JSONWriter()
        json.array { json in
            for token in self {
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
        return json.bytes
    }
}

extension TokenLifetime {
    /// The lifetime in the format of Kakao's API: a bare number.
    fileprivate var answer: String {
        switch self {
        case .days(let days): String(days)
        case .never: "-1"
        }
    }
}
