import HTTPTypes
import Schemas

/// Deregisters a user's device. (Kakao, "Push: REST API", "Delete token".)
package struct DeregisterPushToken: KakaoCall {
    package typealias Answer = Void

    package let version: PushVersion
    package let userID: Int64
    package let deviceID: String
    /// The name of the push type in ``version``.
    package let pushType: String

    package static let operation = KakaoOperation<Self>(
        "push_deregister",
        [.post],
        "/{version}/push/deregister",
        .push,
        [.adminKey],
        isIdempotent: true,
        "Deregisters the push token of a device.",
        parameters: Record(
            .version(\.version),
            .required("uuid", \.userID, .userID, "The user."),
            .required("device_id", \.deviceID, .text(1...64), "The device, among the user's devices."),
            .pushType(\.pushType),
            make: Self.init
        ),
        answer: .empty
    )
}

extension DeregisterPushToken {
    package init(version: PushVersion, userID: Int64, deviceID: String, pushType: PushType) {
        self.init(version: version, userID: userID, deviceID: deviceID, pushType: pushType.name(in: version))
    }
}
