import HTTPTypes
import JSON
import Net
import Schemas

/// Registers a user's device or renews its registration. Repeating a registration only restarts its lifetime. (Kakao,
/// "Push: REST API", "Register token".)
package struct RegisterPushToken: KakaoCall {
    package typealias Answer = TokenLifetime

    package let version: PushVersion
    /// The user's number, which the service chooses: 1 to 2^63-1.
    package let userID: Int64
    /// Identifies the device among the user's devices; at most 64 characters.
    package let deviceID: String
    /// The name of the push type in ``version``.
    package let pushType: String
    /// The token that the app received from APNs or FCM.
    package let pushToken: String

    package static let operation = KakaoOperation<Self>(
        "push_register",
        [.post],
        "/{version}/push/register",
        .push,
        [.adminKey],
        isIdempotent: true,
        "Registers the push token of a device.",
        parameters: Record(
            .version(\.version),
            .required("uuid", \.userID, .userID, "The user."),
            .required("device_id", \.deviceID, .text(1...64), "The device, among the user's devices."),
            .pushType(\.pushType),
            .required("push_token", \.pushToken, .pushToken, "The token from APNs or FCM."),
            make: Self.init
        ),
        answer: .json(.tokenLifetime, example: .days(30)),
        encodeForm: \.form
    )

    private var form: FormBody {
        var form = FormBody()
        form.append("uuid", String(userID))
        form.append("device_id", deviceID)
        form.append("push_type", pushType)
        form.append("push_token", pushToken)
        return form
    }
}

extension RegisterPushToken {
    package init(version: PushVersion, userID: Int64, deviceID: String, pushType: PushType, pushToken: String) {
        let pushType = pushType.name(in: version)
        self.init(version: version, userID: userID, deviceID: deviceID, pushType: pushType, pushToken: pushToken)
    }
}

/// The time that Kakao keeps a push token, counted from its registration.
package enum TokenLifetime: Sendable, Hashable {
    /// A number of days, 0 or more.
    case days(Int)
    /// The token never expires.
    case never

    /// The lifetime in the format of Kakao's API: the number of days, or -1.
    package var days: Int {
        switch self {
        case .days(let days): days
        case .never: -1
        }
    }
}

extension Kind where Value == String {
    /// A push token, which Kakao repeats in errors and the server does not.
    fileprivate static var pushToken: Kind {
        let text = Kind.text(1...4096)
        return Kind(.secret, allowed: text.allowed, read: text.read, write: text.write, text: text.text)
    }
}

extension Kind where Value == TokenLifetime {
    /// A bare JSON number of days; -1 for a token that never expires. More than a hundred years are read as a hundred years:
    /// PostgreSQL cannot store every later time.
    fileprivate static var tokenLifetime: Kind {
        Kind(
            .integer(-1...Int64.max),
            allowed: "a number of days or -1",
            read: { value throws(InvalidValue) in
                guard let days = value.integer, days >= -1 else { throw InvalidValue() }
                return days == -1 ? .never : .days(Int(min(days, 36_500)))
            },
            write: { $1.value($0.days) }
        )
    }
}
