internal import EventLoop
internal import FoundationEssentials
internal import KakaoAPI

/// Which device of which user: what a registration is found by, here and at Kakao.
struct DeviceKey: Hashable, Sendable {
    let userID: Int64
    let deviceID: String
    let pushType: PushType
}

extension DeviceKey: Comparable {
    static func < (key: DeviceKey, other: DeviceKey) -> Bool {
        // Nearly all differ in their users.
        guard key.userID == other.userID else { return key.userID < other.userID }
        return (key.deviceID, key.pushType.storedName) < (other.deviceID, other.pushType.storedName)
    }
}

/// A device as its app describes it.
struct DeviceRegistration: Sendable {
    let key: DeviceKey
    let pushToken: String
    var locale: String?
    var timezone: String?
    var appVersion: String?
    var tags: [String] = []
    /// When the token of the user who asks for it was verified; `nil` for an operator. A user who has left the app since registers nothing.
    var authorizedAt: MonotonicTime?
}

/// A device as it is stored.
struct Device: Sendable {
    let key: DeviceKey
    let pushToken: String
    let locale: String?
    let timezone: String?
    let appVersion: String?
    let tags: [String]
    let createdAt: Date
    let updatedAt: Date
    /// Kakao knows of it as it stands here.
    let isConfirmed: Bool
    /// When Kakao drops the token; `nil` for never, and while Kakao has yet to hear of it.
    let expiresAt: Date?
    let failures: Int
}

/// Something that Kakao has yet to hear of a device, and the lease under which it is told.
struct PendingDevice: Sendable {
    let key: DeviceKey
    let pushToken: String
    /// The app took it back: Kakao is to deregister it.
    let isWithdrawn: Bool
    /// What Kakao will have heard of once it was told.
    let revision: Int64
    let lease: UUID
    /// How often Kakao was asked about this revision and could not be reached.
    let attempts: Int
    /// The server itself asked for it, before the token expires: Kakao has the token.
    var isRenewal = false
    /// The app registered again what Kakao has: Kakao hears nothing new, only the token's time begins anew.
    var isRepeat = false
    /// Somebody else is about to tell Kakao that another user has this token no longer: that has to come first.
    var mustWait = false
}

extension PushType {
    /// The name it is stored under, whatever version of Kakao's API it came by.
    var storedName: String {
        switch self {
        case .apns: "apns"
        case .fcm: "fcm"
        }
    }

    init?(storedName: String) {
        switch storedName {
        case "apns": self = .apns
        case "fcm": self = .fcm
        default: return nil
        }
    }
}
