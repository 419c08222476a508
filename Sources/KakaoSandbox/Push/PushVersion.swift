/// A version of Kakao's Push API. As documented, the versions differ only in the name of the Android platform.
enum PushVersion: String, CaseIterable, Sendable {
    /// The version with `gcm` and `for_gcm`.
    case v1
    /// The version with `fcm` and `for_fcm`, available since 2020-12-02.
    case v2

    /// Returns the name of the member of `push_message` for a platform.
    func member(for platform: Platform) -> String {
        "for_" + platform.name(in: self)
    }
}

/// The push service of a device.
package enum Platform: UInt8, CaseIterable, Sendable {
    case apns
    /// GCM and FCM, one service under two names. A token registered by one version is valid in the other.
    case android

    /// Returns the platform's `push_type`.
    func name(in version: PushVersion) -> String {
        switch (self, version) {
        case (.apns, _): "apns"
        case (.android, .v1): "gcm"
        case (.android, .v2): "fcm"
        }
    }

    init?(name: String, in version: PushVersion) {
        guard let platform = Self.allCases.first(where: { $0.name(in: version) == name }) else { return nil }
        self = platform
    }
}
