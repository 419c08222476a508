/// How a sandbox listens, and what kind of Kakao it is.
package struct KakaoSandboxSettings: Sendable {
    /// A numeric address: `127.0.0.1`, `0.0.0.0`, `::1`, `::`. Whoever reaches it may use `/sandbox/*`: keep it at home.
    package var host = "127.0.0.1"
    /// 0 has the kernel choose one: ``KakaoSandbox/port`` tells it.
    package var port = 0
    /// The Admin key that callers must show, and that the sandbox shows in its callbacks.
    package var adminKey = "sandbox-admin-key"
    /// The app that the Admin key belongs to, as Kakao's error texts name it.
    package var appID = 123_456
    /// The app's REST API key, which account events are for.
    package var restAPIKey = "sandbox-rest-api-key"
    /// Serves HTTPS with a certificate that the sandbox makes for `localhost`, `127.0.0.1` and `::1`.
    package var tls = false
    /// Where that certificate is written as PEM, so that a client can be told to trust it and nothing else.
    package var certificateFile: String?
    /// Days until a token expires unless it is registered again: up to 36,500; -1 for never, 0 for at once.
    package var tokenLifetimeDays = 30
    /// The push server's base URL, which Link callbacks go to: `http://127.0.0.1:8080`.
    package var callbackURL: String?
    /// Certificates in PEM form that callbacks and feedback trust instead of the system's.
    package var callbackCertificateFile: String?
    /// Where faults with a probability take their choices from, so that a run can be played again; `nil` for a seed of its own.
    package var seed: UInt64?
    /// The member of `custom_field` by which pushes are told apart when the users they reach are counted.
    package var markerField = "marker"
    /// Deliveries that are kept in full; older ones are only counted.
    package var maximumDeliveries = 10_000
    /// Tokens that are kept; one more is refused as Kakao refuses when it is in trouble (-1).
    package var maximumTokens = 1_000_000
    /// Users whose pushes are counted, over all markers; what comes beyond is told as `uncounted`.
    package var maximumReached = 20_000_000

    package init() {}
}
