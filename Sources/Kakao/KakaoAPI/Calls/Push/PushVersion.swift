import Schemas

/// A version of Kakao's Push API. Both have the same functions; version 2 came with Firebase (2020-12-02) and renamed
/// Google's push type and message member.
package enum PushVersion: String, Sendable, Hashable, CaseIterable {
    /// Paths below `/v1/push`, push type `gcm`, message member `for_gcm`.
    case v1
    /// Paths below `/v2/push`, push type `fcm`, message member `for_fcm`.
    case v2

    /// The common prefix of the version's paths, for example `/v1/push`.
    package var path: String { "/\(rawValue)/push" }

    /// The member of a push message for Android devices.
    package var androidMember: String {
        switch self {
        case .v1: "for_gcm"
        case .v2: "for_fcm"
        }
    }

    /// The members of a push message that can have a `return_url`, to which Kakao reports failed tokens.
    ///
    /// Kakao documents it for Android, and for APNS only where it describes version 2 (the class
    /// `KakaoPushMessagePropertyForApns` of its SDK for iOS). Version 1 might show the URL, which is secret, to phones.
    package var membersWithReturnURL: [String] {
        switch self {
        case .v1: [androidMember]
        case .v2: [androidMember, Self.apnsMember]
        }
    }

    /// The member of a push message for Apple's devices.
    package static let apnsMember = "for_apns"
}

extension RecordMember where Whole: Sendable, Value == PushVersion {
    /// The version in the path of a call.
    static func version(_ get: @escaping @Sendable (Whole) -> PushVersion) -> RecordMember {
        .required("version", get, .choice, "The version of the Push API.")
    }
}
