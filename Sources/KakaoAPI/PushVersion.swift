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
}

/// The service that delivers notifications to a device.
package enum PushType: Sendable, Hashable, CaseIterable {
    /// Apple Push Notification service.
    case apns
    /// Firebase Cloud Messaging, which version 1 calls by its former name, Google Cloud Messaging.
    case fcm

    /// Returns the value of `push_type` in a version of the Push API.
    package func name(in version: PushVersion) -> String {
        switch (self, version) {
        case (.apns, _): "apns"
        case (.fcm, .v1): "gcm"
        case (.fcm, .v2): "fcm"
        }
    }

    /// Parses a name as a version of the Push API writes it, in lower case. Returns `nil` for any other text.
    package init?(name: String, version: PushVersion) {
        guard let type = Self.allCases.first(where: { $0.name(in: version) == name }) else { return nil }
        self = type
    }

    /// Parses a name from either version. Returns `nil` for any other text.
    package init?(name: String) {
        guard let type = PushType(name: name, version: .v1) ?? PushType(name: name, version: .v2) else { return nil }
        self = type
    }
}
