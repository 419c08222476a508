/// A version of Kakao's Push API. They differ in what Android is called and in nothing else that is documented.
enum PushVersion: String, CaseIterable, Sendable {
    /// With `gcm` and `for_gcm`.
    case v1
    /// With `fcm` and `for_fcm`, since 2020-12-02.
    case v2

    /// The member of `push_message` that is for a platform.
    func member(for platform: Platform) -> String {
        "for_" + platform.name(in: self)
    }
}

/// Whose push service a device has.
package enum Platform: UInt8, CaseIterable, Sendable {
    case apns
    /// GCM and FCM: one service under two names, so that a token registered by one version is known to the other.
    case android

    /// What `push_type` says of it.
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
