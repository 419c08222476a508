/// A version of Kakao's Push API. Both do the same; the second came with Firebase (2020-12-02) and renamed what is
/// Google's.
package enum PushVersion: String, Sendable, Hashable, CaseIterable {
    /// Paths below `/v1/push`, push type `gcm`, message member `for_gcm`.
    case v1
    /// Paths below `/v2/push`, push type `fcm`, message member `for_fcm`.
    case v2

    /// What all paths of the version begin with: `/v1/push`.
    package var path: String { "/\(rawValue)/push" }

    /// The member of a push message that is for Android phones.
    package var androidMember: String {
        switch self {
        case .v1: "for_gcm"
        case .v2: "for_fcm"
        }
    }
}

/// By which service a phone gets its notifications.
package enum PushType: Sendable, Hashable, CaseIterable {
    /// Apple Push Notification service.
    case apns
    /// Firebase Cloud Messaging: Google Cloud Messaging, when Kakao's first version was written.
    case fcm

    /// How a version of the Push API writes it: `push_type`.
    package func name(in version: PushVersion) -> String {
        switch (self, version) {
        case (.apns, _): "apns"
        case (.fcm, .v1): "gcm"
        case (.fcm, .v2): "fcm"
        }
    }

    /// Reads a name as a version of the Push API writes it, in small letters; `nil` for any other.
    package init?(name: String, version: PushVersion) {
        guard let type = Self.allCases.first(where: { $0.name(in: version) == name }) else { return nil }
        self = type
    }

    /// Reads a name as either version writes it; `nil` for any other.
    package init?(name: String) {
        guard let type = PushType(name: name, version: .v1) ?? PushType(name: name, version: .v2) else { return nil }
        self = type
    }
}
