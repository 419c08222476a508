import Endpoints
import HTTPServer
import HTTPTypes
import Identity
import JSON
import KakaoAPI
import Postgres
import Runtime
import Schemas

/// The operations `/v1/push/register`, `/tokens` and `/deregister` in the format of Kakao's API, and the same under
/// `/v2/push`.
struct KakaoDeviceRoutes: RouteCollection {
    static let title = "Devices, as in Kakao's API"
    static let operations = PushVersion.allCases.flatMap { version in
        [registering(version), listing(version, .get), listing(version, .post), deregistering(version)]
    }

    let registrar: DeviceRegistrar

    // MARK: Registering

    private static let deviceID = Field.required("device_id", .text(DeviceKey.idLength), DeviceKey.idDescription)

    private static func pushType(_ version: PushVersion) -> Field<PushType> {
        .required("push_type", .pushType(version), "The service that delivers to the device.")
    }

    private static func registering(_ version: PushVersion) -> Operation<KakaoDeviceRoutes> {
        let pushType = pushType(version)
        return Operation(
            "registerDevice\(version.suffix)",
            .post,
            "\(version.path)/register",
            .device,
            "Registers the push token of a device, here and at Kakao.",
            body: .fields([Call.uuid, deviceID, pushType] + DeviceRegistration.fields),
            unknownFields: .ignored,
            maximumBodyBytes: RequestSize.small,
            answers: [
                .json(
                    .ok,
                    .integer(-1...Int64.max),
                    "The days until the token expires; -1 for never. While the call to Kakao is pending, the lifetime that Kakao last gave.",
                    headers: [.state, .answeredBy]
                )
            ],
            problems: DeviceRegistrar.problems
        ) { routes in { try await routes.register($0, pushType) } }
    }

    /// Stores a registration, then calls Kakao. Responds with the days until the token expires. A registration whose call to Kakao is
    /// pending is accepted, too, and expected to last as long as Kakao's last one.
    private func register(_ call: Call, _ pushType: Field<PushType>) async throws -> Response {
        let registration = try DeviceRegistration(call, Self.key(call, pushType))
        if let lifetime = try await registrar.register(registration) {
            return Self.response(lifetime, .answeredByKakao)
        }
        return Self.response(registrar.lifetimes.lifetime(of: registration.key.pushType)).withPendingState()
    }

    private static func response(_ lifetime: TokenLifetime, _ headerFields: HTTPFields = HTTPFields()) -> Response {
        .json(Array(String(lifetime.days).utf8), headerFields: headerFields)
    }

    // MARK: Listing

    private static let uuids = Field.optional(
        "uuids",
        .userIDs(count: 1...SendPush.maximumUsers),
        "Several users, instead of `uuid`."
    )

    /// - Parameter method: GET, or POST for more users than fit into a query.
    private static func listing(_ version: PushVersion, _ method: HTTPRequest.Method) -> Operation<KakaoDeviceRoutes> {
        Operation(
            "listTokens\(method == .get ? "" : "ByPost")\(version.suffix)",
            method,
            "\(version.path)/tokens",
            .device,
            "Lists the devices of users with their push tokens. An operator names one user in `uuid` or several in `uuids`.",
            query: method == .get ? [Call.uuid, uuids] : [],
            body: method == .get ? .none : .fields([Call.uuid, uuids]),
            unknownFields: .ignored,
            maximumBodyBytes: RequestSize.small,
            answers: [.tokens(version)],
            problems: [.kakaoUnavailable, .badGateway, .serverRefused],
            auditing: .lookup { .users(try userIDs($0)) }
        ) { routes in { try await routes.tokens($0, version) } }
    }

    /// Lists the devices of one or more users in the order of user and device. Devices of users that are unknown here
    /// come from Kakao.
    ///
    /// A list of more than one page is streamed.
    private func tokens(_ call: Call, _ version: PushVersion) async throws -> Response {
        let userIDs = try Self.userIDs(call)
        let store = registrar.store
        let first: DeviceStore.TokenPage
        var unknown: [Int64] = []
        if userIDs.count == 1, let userID = userIDs.first {
            first = try await store.pushTokens(ofUser: userID)
            if first.isUnknown { unknown = userIDs }
        } else {
            unknown = try await store.pool.read(FindUnknownUsers(userIDs: userIDs))
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

    /// Returns the users in `uuid` or `uuids`, distinct and in order. A user's app may omit both, and may name only its
    /// own user.
    private static func userIDs(_ call: Call) throws -> [Int64] {
        let (hasOne, hasSeveral) = (call.has(Call.uuid), call.has(uuids))
        guard !hasOne || !hasSeveral else {
            throw Problem.field(uuids.name, "absent beside uuid", "Specify only one of them.")
        }
        guard hasOne || hasSeveral || call.caller.user != nil else {
            throw Problem.field("uuid", Kind.userID.allowed, "Specify uuid or uuids.", isMissing: true)
        }
        guard let userIDs = try call[uuids] else { return [try call.userID(Call.uuid)] }
        try call.caller.require(userIDs, uuids.name)
        return Set(userIDs).sorted()
    }

    // MARK: Deregistering

    private static func deregistering(_ version: PushVersion) -> Operation<KakaoDeviceRoutes> {
        let pushType = pushType(version)
        return Operation(
            "deregisterDevice\(version.suffix)",
            .post,
            "\(version.path)/deregister",
            .device,
            "Removes a device, here and at Kakao.",
            body: .fields([Call.uuid, deviceID, pushType]),
            unknownFields: .ignored,
            maximumBodyBytes: RequestSize.small,
            answers: [.empty(.ok, "The device is removed.", headers: [.state, .answeredBy])]
        ) { routes in { try await routes.deregister($0, pushType) } }
    }

    /// Withdraws a device. Responds with an empty body, also while the call to Kakao is pending.
    private func deregister(_ call: Call, _ pushType: Field<PushType>) async throws -> Response {
        let isDeregistered = try await registrar.withdraw(Self.key(call, pushType), by: call.caller.keyName)
        return isDeregistered ? .json([], headerFields: .answeredByKakao) : Response.json([]).withPendingState()
    }

    private static func key(_ call: Call, _ pushType: Field<PushType>) throws -> DeviceKey {
        DeviceKey(userID: try call.userID(Call.uuid), deviceID: try call[deviceID], pushType: try call[pushType])
    }
}

extension Kind where Value == PushType {
    /// A push type by its name in a version of Kakao's API.
    fileprivate static func pushType(_ version: PushVersion) -> Kind {
        let names = PushType.allCases.map { $0.name(in: version) }
        return Kind(
            text: .choice(names),
            allowed: names.joined(separator: " or "),
            parse: { PushType(name: $0, version: version) },
            format: { $0.name(in: version) }
        )
    }
}

extension Answer {
    /// The list of tokens in the format of Kakao's API, which is written without a shape, since it may be long.
    fileprivate static func tokens(_ version: PushVersion) -> Answer {
        let names = ["user_id", "device_id", "push_type", "push_token", "created_at", "updated_at"]
        return .json(
            .ok,
            .array(of: .object(names.map { ($0, Schema.text(), true) })),
            "The devices, sorted by user and device."
        )
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
