import Schemas

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

extension RecordMember where Whole: Sendable, Value == String {
    /// The parameter `push_type`, whose values depend on the version.
    static func pushType(_ get: @escaping @Sendable (Whole) -> String) -> RecordMember {
        .required(
            "push_type",
            get,
            Kind<String>.text(oneOf: ["apns", "gcm", "fcm"]),
            "The service that delivers to the device."
        )
    }
}
