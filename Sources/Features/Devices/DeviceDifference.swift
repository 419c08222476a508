import KakaoAPI
import Postgres
import Schemas

/// A device whose state here differs from Kakao's.
struct DeviceDifference: Sendable {
    enum Kind: String, CaseIterable, Sendable {
        /// Kakao has not confirmed the latest change.
        case pending
        case missingAtKakao = "missing_at_kakao"
        case otherTokenAtKakao = "other_token_at_kakao"
        case unknownHere = "unknown_here"
    }

    let key: DeviceKey
    let kind: Kind
}

extension DeviceDifference {
    static let shape = Shape<DeviceDifference>(
        "DeviceDifference",
        [
            .member("device_id", .text, "The device.", \.key.deviceID),
            .member("push_type", .text(oneOf: PushType.storedNames), "Its push type.", \.key.pushType.storedName),
            .member("difference", .choice, "What differs.", \.kind),
        ]
    )
}

extension DeviceDifference.Kind: StoredChoice {}
