import HTTPTypes
import JSON
import Net
import Schemas

/// Sends a message to all devices of some users. (Kakao, "Push: REST API", "Send push".)
///
/// Success means that Kakao accepted the message, not that it was delivered. Kakao accepts no idempotency key, so it
/// cannot recognize a repeated message: see ``KakaoError/mayHaveBeenSent``.
package struct SendPush: KakaoCall {
    package typealias Answer = Void

    /// The maximum number of users in one call.
    package static let maximumUsers = 100

    package let version: PushVersion
    /// 1 to ``maximumUsers`` ids. Kakao rejects more.
    package let userIDs: [Int64]
    package let message: EncodedPushMessage
    /// Whether the message contains its push token, which need not be registered with Kakao.
    package let bypass: Bool?

    package init(version: PushVersion, userIDs: [Int64], message: EncodedPushMessage, bypass: Bool? = nil) {
        self.version = version
        self.userIDs = userIDs
        self.message = message
        self.bypass = bypass
    }

    package static let operation = KakaoOperation<Self>(
        "push_send",
        [.post],
        "/{version}/push/send",
        .push,
        [.adminKey],
        isIdempotent: false,
        "Sends a push to all devices of users.",
        parameters: Record(
            .version(\.version),
            .required("uuids", \.userIDs, .userIDs(count: 1...maximumUsers), "The users."),
            .required("push_message", \.message, .encodedMessage, "The message, with one member per platform."),
            .optional("bypass", \.bypass, .boolean, "Whether the message contains its push token."),
            make: Self.init(version:userIDs:message:bypass:)
        ),
        answer: .empty,
        encodeForm: \.form
    )

    /// The form, whose message is encoded once for all requests of a push.
    private var form: FormBody {
        var form = FormBody()
        form.append("uuids", encoded: encodedUserIDs)
        form.append(message.field)
        if let bypass { form.append("bypass", String(bypass)) }
        return form
    }

    /// The user ids in the API's format: a JSON array of strings. It is percent-encoded directly, because a send has a
    /// hundred of them.
    private var encodedUserIDs: [UInt8] {
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
package struct EncodedPushMessage: Sendable {
    /// A JSON object in UTF-8 with one member per platform. It is sent unchanged.
    package let json: [UInt8]
    fileprivate let field: FormBody

    package init(_ json: [UInt8]) {
        self.json = json
        var field = FormBody()
        field.append("push_message", utf8: json)
        self.field = field
    }
}

extension Kind where Value == EncodedPushMessage {
    fileprivate static var encodedMessage: Kind {
        Kind(
            .object,
            allowed: "a JSON object",
            read: { value throws(InvalidValue) in
                guard try value.structured().object != nil else { throw InvalidValue() }
                return EncodedPushMessage(Array(value.anyText.utf8))
            },
            write: { $1.value(JSONFragment($0.json)) },
            text: { String(decoding: $0.json, as: UTF8.self) }
        )
    }
}
