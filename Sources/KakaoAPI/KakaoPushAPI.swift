package import HTTPClient
internal import HTTPTypes
internal import JSON

extension KakaoClient {
    /// The Push API.
    package var push: KakaoPushAPI { KakaoPushAPI(client: self) }
}

/// Kakao's Push API: registers users' devices and sends messages to all devices of a user.
///
/// A user is identified by `uuid`, an integer from 1 to 2^63-1 that the service chooses. Versions 1 and 2 of the API
/// are supported; the settings select one. (Kakao, "REST API Development Guide: Push Notification"; "Push: REST API".)
package struct KakaoPushAPI: Sendable {
    /// The maximum number of users in one call.
    package static let maximumUsers = 100

    private let client: KakaoClient
    private let version: PushVersion

    init(client: KakaoClient) {
        self.client = client
        version = client.settings.pushVersion
    }

    /// Creates the API on a client of the calling loop.
    ///
    /// - Parameter onCall: Called for every finished call, before its caller resumes.
    package init(
        settings: KakaoAPISettings,
        client: HTTPClient,
        onCall: @escaping @Sendable (KakaoCall) -> Void = { _ in }
    ) {
        self.init(client: KakaoClient(settings: settings, client: client, onCall: onCall))
    }

    /// Registers a user's device or renews its registration: `POST …/register`. Repeating a registration only restarts
    /// its lifetime.
    ///
    /// - Parameters:
    ///   - deviceID: Identifies the device among the user's devices; at most 64 characters.
    ///   - pushToken: The token that the app received from APNs or FCM.
    /// - Returns: The time that Kakao keeps the token unless the device registers again.
    /// - Throws: ``KakaoError``
    package func register(
        userID: Int64,
        deviceID: String,
        pushType: PushType,
        pushToken: String
    ) async throws(KakaoError) -> TokenLifetime {
        var form = FormBody()
        form.append("uuid", String(userID))
        form.append("device_id", deviceID)
        form.append("push_type", pushType.name(in: version))
        form.append("push_token", pushToken)
        return try await client.post(.pushRegister, version.path + "/register", form, isIdempotent: true) {
            TokenLifetime(answer: $0)
        }
    }

    /// Returns the users' devices in Kakao's order: `POST …/tokens`. Users without devices are absent.
    ///
    /// - Parameter userIDs: 1 to ``maximumUsers`` ids. Kakao rejects more.
    /// - Throws: ``KakaoError``
    package func tokens(userIDs: [Int64]) async throws(KakaoError) -> [PushToken] {
        var form = FormBody()
        form.append("uuids", encoded: Self.list(userIDs))
        return try await client.post(.pushTokens, version.path + "/tokens", form, isIdempotent: true) {
            PushToken.list(answer: $0)
        }
    }

    /// Deregisters a user's device: `POST …/deregister`.
    ///
    /// - Throws: ``KakaoError``
    package func deregister(userID: Int64, deviceID: String, pushType: PushType) async throws(KakaoError) {
        var form = FormBody()
        form.append("uuid", String(userID))
        form.append("device_id", deviceID)
        form.append("push_type", pushType.name(in: version))
        // A successful response has no body, whatever its content type says.
        try await client.post(.pushDeregister, version.path + "/deregister", form, isIdempotent: true) { _ in () }
    }

    /// Sends a message to all devices of some users: `POST …/send`.
    ///
    /// Kakao accepts no idempotency key, so it cannot recognize a repeated message: see ``KakaoError/bodyBytesLeft``.
    ///
    /// - Parameters:
    ///   - userIDs: 1 to ``maximumUsers`` ids. Kakao rejects more.
    ///   - latestStart: See ``HTTPClientRequest/latestStart``.
    /// - Throws: ``KakaoError``. Success means that Kakao accepted the message, not that it was delivered.
    package func send(
        _ message: SendMessage,
        to userIDs: [Int64],
        startingBefore latestStart: UInt64? = nil
    ) async throws(KakaoError) {
        let form = Self.sendForm(message, userIDs)
        try await client.post(.pushSend, version.path + "/send", form, latestStart: latestStart) { _ in () }
    }

    /// Returns the request that ``send(_:to:)`` would send, with the Admin key masked, for display.
    package func sendRequest(_ message: SendMessage, to userIDs: [Int64]) -> HTTPClientRequest {
        var request = client.request(version.path + "/send", Self.sendForm(message, userIDs))
        request.headerFields[.authorization] = "KakaoAK ***"
        return request
    }

    private static func sendForm(_ message: SendMessage, _ userIDs: [Int64]) -> FormBody {
        var form = FormBody()
        form.append("uuids", encoded: list(userIDs))
        form.append(message.fields)
        return form
    }

    /// Returns user ids in the API's format: a JSON array of strings. It is percent-encoded directly, because a send
    /// has a hundred of them.
    private static func list(_ userIDs: [Int64]) -> [UInt8] {
        // Each id has up to 19 digits and 9 bytes of encoded quotes and comma.
        [UInt8](unsafeUninitializedCapacity: userIDs.count * 28 + 12) { list, count in
            func append(_ text: StaticString) {
                UnsafeMutableRawBufferPointer(rebasing: UnsafeMutableRawBufferPointer(list)[count...])
                    .copyMemory(from: UnsafeRawBufferPointer(start: text.utf8Start, count: text.utf8CodeUnitCount))
                count += text.utf8CodeUnitCount
            }
            append("%5B%22")
            for (place, id) in userIDs.enumerated() {
                if place > 0 { append("%22%2C%22") }
                let start = count
                var rest = id.magnitude
                repeat {
                    list[count] = UInt8(ascii: "0") + UInt8(truncatingIfNeeded: rest % 10)
                    count += 1
                    rest /= 10
                } while rest > 0
                // The digits were written in reverse order.
                list[start..<count].reverse()
            }
            append("%22%5D")
        }
    }
}

/// The message of a send, independent of its users. It is encoded once for all requests.
package struct SendMessage: Sendable {
    fileprivate let fields: FormBody

    /// - Parameters:
    ///   - message: A JSON object in UTF-8 with one member per platform. It is sent unchanged.
    ///   - bypass: Whether the message contains its push token, which need not be registered with Kakao.
    package init(_ message: [UInt8], bypass: Bool = false) {
        var fields = FormBody()
        fields.append("push_message", utf8: message)
        if bypass { fields.append("bypass", "true") }
        self.fields = fields
    }
}

/// The time that Kakao keeps a push token, counted from its registration.
package enum TokenLifetime: Sendable, Hashable {
    /// A number of days, 0 or more.
    case days(Int)
    /// The token never expires.
    case never

    /// Parses the response to a registration: a bare JSON number, -1 for a token that never expires.
    init?(answer: [UInt8]) {
        guard let days = try? JSONValue(parsing: answer).integer, days >= -1 else { return nil }
        self = days == -1 ? .never : .days(Int(days))
    }
}
