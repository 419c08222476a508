/// The settings of a sandbox: its address, and how it behaves.
package struct KakaoSandboxSettings: Sendable {
    /// A numeric address: `127.0.0.1`, `0.0.0.0`, `::1`, `::`. Any client that can connect may use `/sandbox/*`, so do
    /// not expose it.
    package var host = "127.0.0.1"
    /// The port. For 0 the kernel chooses one, which is ``KakaoSandbox/port``.
    package var port = 0
    /// The Admin key that callers must present, and that the sandbox sends in its callbacks.
    package var adminKey = "sandbox-admin-key"
    /// The id of the app that the Admin key belongs to, as in Kakao's error messages.
    package var appID = 123_456
    /// The app's REST API key, which is the audience of account events.
    package var restAPIKey = "sandbox-rest-api-key"
    /// The native app key, with which Kakao's SDKs call KakaoTalk Sharing.
    package var nativeAppKey = "sandbox-native-app-key"
    /// The domains that are registered at Kakao, in lower case; empty if all are.
    package var domains: Set<String> = []
    /// The names of the arguments of custom templates, by the templates' ids.
    package var templateArguments: [Int64: [String]] = [:]
    /// Whether to serve HTTPS, with a self-signed certificate for `localhost`, `127.0.0.1` and `::1`.
    package var tls = false
    /// The file to which that certificate is written as PEM, so that a client can trust it and nothing else.
    package var certificateFile: String?
    /// The number of days until a push token expires unless it is registered again: up to 36,500; -1 for never, 0 for
    /// at once.
    package var tokenLifetimeDays = 30
    /// The push server's base URL for callbacks: `http://127.0.0.1:8080`.
    package var callbackURL: String?
    /// The file of PEM certificates that callbacks and feedback trust instead of the system's.
    package var callbackCertificateFile: String?
    /// The seed of faults with a probability, so that a run can be reproduced; `nil` for a random seed.
    package var seed: UInt64?
    /// The member of `custom_field` that identifies a push when the users that it reaches are counted.
    package var markerField = "marker"
    /// The number of deliveries that are kept in full. Older ones are only counted.
    package var maximumDeliveries = 10_000
    /// The maximum number of push tokens. Beyond it, a registration is refused with Kakao's code for a temporary
    /// internal error (-1).
    package var maximumTokens = 1_000_000
    /// The maximum number of users whose pushes are counted, over all markers. Further ones are reported as
    /// `uncounted`.
    package var maximumReached = 20_000_000

    package init() {}
}
