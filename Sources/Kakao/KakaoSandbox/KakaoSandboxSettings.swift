/// The settings of a sandbox: its address, and how it behaves.
package struct KakaoSandboxSettings: Sendable {
    /// A numeric address: `127.0.0.1`, `0.0.0.0`, `::1`, `::`. Any client that can connect may use `/sandbox/*`, so do
    /// not expose it.
    package var host = "127.0.0.1"
    /// The host name or the numeric address in the sandbox's URL, by which its clients reach it; `nil` for that of ``host``.
    package var name: String?
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
    /// The JavaScript key, with which Kakao's SDK logs users in on the web.
    package var javaScriptKey = "sandbox-javascript-key"
    /// The client secret of the REST API key; `nil` if the key needs none.
    package var clientSecret: String? = "sandbox-client-secret"
    /// The redirect URIs that are registered at Kakao; empty if all of `http` and `https` are. The native app key has its
    /// own besides, `kakao{key}://oauth`.
    package var redirectURIs: Set<String> = []
    /// The user who logs in if `login_hint` is absent; `nil` if nobody does.
    package var testUserID: Int64? = 1001
    /// The lifetime of access tokens, in seconds.
    package var accessTokenSeconds: Int64 = 21_599
    /// The lifetime of refresh tokens, in seconds.
    package var refreshTokenSeconds: Int64 = 5_184_000
    /// A refresh replaces its refresh token if fewer seconds of its lifetime are left: Kakao says a month.
    package var rotateRefreshTokensBelowSeconds: Int64 = 30 * 24 * 60 * 60
    /// The limit of access tokens that a user's codes and refreshes yield (KOE237); `nil` for no limit.
    package var tokenLimit: TokenLimit? = TokenLimit(count: 20, seconds: 10 * 60)
    /// The limit of a user's refreshes (KOE237); `nil` for no limit.
    package var refreshLimit: TokenLimit? = TokenLimit(count: 30, seconds: 60 * 60)
    /// The domains that are registered at Kakao, in lower case; empty if all are.
    package var domains: Set<String> = []
    /// The names of the arguments of custom templates, by the templates' ids.
    package var templateArguments: [Int64: [String]] = [:]
    /// The app as KakaoTalk treats it.
    package var talk = TalkSettings()
    /// The number of messages of KakaoTalk that are kept in full. Older ones are only counted.
    package var maximumMessages = 300_000
    /// Whether to serve HTTPS, with a self-signed certificate for `localhost`, `127.0.0.1`, `::1`, ``host``, ``name``, and the
    /// address that Android's emulator has for this machine.
    package var tls = false
    /// The file to which that certificate is written as PEM, so that a client can trust it and nothing else. With
    /// ``privateKeyFile``, the certificate is read from it instead.
    package var certificateFile: String?
    /// The file of the private key (PEM) of the certificate in ``certificateFile``; `nil` to generate both.
    package var privateKeyFile: String?
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
    /// The number of webhooks of the push server that are kept.
    package var maximumWebhooks = 100_000
    /// The maximum number of push tokens. Beyond it, a registration is refused with Kakao's code for a temporary
    /// internal error (-1).
    package var maximumTokens = 1_000_000
    /// The maximum number of users whose pushes are counted, over all markers. Further ones are reported as
    /// `uncounted`.
    package var maximumReached = 20_000_000

    package init() {}

    /// The app keys that users can log in with.
    var appKeys: [String] { [restAPIKey, nativeAppKey, javaScriptKey] }
}

/// A limit of the requests of one user within a time.
package struct TokenLimit: Sendable {
    package var count: Int
    package var seconds: Int64

    package init(count: Int, seconds: Int64) {
        self.count = count
        self.seconds = seconds
    }
}
