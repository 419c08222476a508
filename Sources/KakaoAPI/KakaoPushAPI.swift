package import HTTPClient
internal import HTTPTypes
internal import JSON

extension KakaoClient {
    /// The Push API.
    package var push: KakaoPushAPI { KakaoPushAPI(client: self) }
}

/// Kakao's Push API: which phones a user has, and messages to all phones of a user.
///
/// A user is an integer from 1 to 2^63-1 that the service chooses: `uuid`. Everything works with version 1 and version
/// 2 of the API, as the settings say. (Kakao, "REST API Development Guide: Push Notification"; "Push: REST API".)
package struct KakaoPushAPI: Sendable {
    /// The most users that one call names.
    package static let maximumUsers = 100

    private let client: KakaoClient
    private let version: PushVersion

    init(client: KakaoClient) {
        self.client = client
        version = client.settings.pushVersion
    }

    /// The API over a client of the calling loop.
    ///
    /// - Parameter onCall: Told of every call when it has ended, before its caller is.
    package init(
        settings: KakaoAPISettings,
        client: HTTPClient,
        onCall: @escaping @Sendable (KakaoCall) -> Void = { _ in }
    ) {
        self.init(client: KakaoClient(settings: settings, client: client, onCall: onCall))
    }

    /// Registers a phone for a user, or renews it: `POST …/register`. Registering the same again only begins its time
    /// anew.
    ///
    /// - Parameters:
    ///   - deviceID: Tells the phones of a user apart; at most 64 characters.
    ///   - pushToken: What APNs or FCM gave the app.
    /// - Returns: How long Kakao keeps the token unless it is registered again.
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

    /// The phones of users, in Kakao's order; none for a user who has none: `POST …/tokens`.
    ///
    /// - Parameter userIDs: 1 to ``maximumUsers``; Kakao refuses more.
    /// - Throws: ``KakaoError``
    package func tokens(userIDs: [Int64]) async throws(KakaoError) -> [PushToken] {
        var form = FormBody()
        form.append("uuids", encoded: Self.list(userIDs))
        return try await client.post(.pushTokens, version.path + "/tokens", form, isIdempotent: true) {
            PushToken.list(answer: $0)
        }
    }

    /// Takes a user's phone back: `POST …/deregister`.
    ///
    /// - Throws: ``KakaoError``
    package func deregister(userID: Int64, deviceID: String, pushType: PushType) async throws(KakaoError) {
        var form = FormBody()
        form.append("uuid", String(userID))
        form.append("device_id", deviceID)
        form.append("push_type", pushType.name(in: version))
        // Success has no body, whatever its content type says.
        try await client.post(.pushDeregister, version.path + "/deregister", form, isIdempotent: true) { _ in () }
    }

    /// Sends a message to all phones of some users: `POST …/send`.
    ///
    /// Kakao takes no key by which it would know a message that is sent again: see ``KakaoError/bodyBytesLeft``.
    ///
    /// - Parameters:
    ///   - userIDs: 1 to ``maximumUsers``; Kakao rejects more.
    ///   - latestStart: See ``HTTPClientRequest/latestStart``.
    /// - Throws: ``KakaoError``. No error does not mean that anything was delivered: Kakao accepted the message, no
    ///   more.
    package func send(
        _ message: SendMessage,
        to userIDs: [Int64],
        startingBefore latestStart: UInt64? = nil
    ) async throws(KakaoError) {
        let form = Self.sendForm(message, userIDs)
        try await client.post(.pushSend, version.path + "/send", form, latestStart: latestStart) { _ in () }
    }

    /// The request that ``send(_:to:)`` would send, with the Admin key masked: to be shown.
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

    /// Users as the API takes them, a JSON array, the numbers in quotes: percent-encoded already, for a send has a hundred.
    private static func list(_ userIDs: [Int64]) -> [UInt8] {
        // Nineteen digits, quotes and a comma each.
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
                // The last digit was written first.
                list[start..<count].reverse()
            }
            append("%22%5D")
        }
    }
}

/// What a send says, whomever it is sent to: encoded once for all of its requests.
package struct SendMessage: Sendable {
    fileprivate let fields: FormBody

    /// - Parameters:
    ///   - message: A JSON object in UTF-8, with a member for each kind of phone: passed through as it is.
    ///   - bypass: The message brings its push token, which Kakao need not know.
    package init(_ message: [UInt8], bypass: Bool = false) {
        var fields = FormBody()
        fields.append("push_message", utf8: message)
        if bypass { fields.append("bypass", "true") }
        self.fields = fields
    }
}

/// How long Kakao keeps a push token, from its registration on.
package enum TokenLifetime: Sendable, Hashable {
    /// So many days, 0 or more.
    case days(Int)
    /// For ever.
    case never

    /// Reads the answer to a registration: a bare JSON number, -1 for a token that never expires.
    init?(answer: [UInt8]) {
        guard let days = try? JSONValue(parsing: answer).integer, days >= -1 else { return nil }
        self = days == -1 ? .never : .days(Int(days))
    }
}
