package import Runtime
package import Settings

/// The settings of outgoing webhooks.
package struct WebhookSettings: SettingsGroup {
    /// The endpoint; `nil` if there is none.
    package var url: WebhookURL?
    package var secret: WebhookSecret?
    /// A second secret that signs as well, while receivers change from one to the other.
    package var nextSecret: WebhookSecret?
    package var types = WebhookTypes()
    /// The intervals of the delivery, which tests shorten.
    package var intervals = WebhookIntervals()

    package init() {}

    package static let settings: [Setting<WebhookSettings>] = [
        Setting(
            "webhooks.url",
            \.url,
            optional: .webhookURL,
            example: "https://backend.example.com/webhooks",
            "the endpoint that gets a webhook for each event ([webhooks](webhooks.md))"
        ),
        Setting(
            "webhooks.secret",
            \.secret,
            optional: .webhookSecret,
            example: "/run/secrets/webhooks_secret",
            reloadable: true,
            "the secret that signs webhooks, for example from `echo whsec_$(openssl rand -base64 32)`; required with `webhooks.url`"
        ),
        Setting(
            "webhooks.secret_next",
            \.nextSecret,
            optional: .webhookSecret,
            example: "/run/secrets/webhooks_secret_next",
            reloadable: true,
            "a second secret that signs as well, for a change of the secret ([webhooks](webhooks.md#change-the-secret))"
        ),
        Setting(
            "webhooks.types",
            \.types,
            .webhookTypes,
            example: "push.*, sender.*",
            "the types of webhooks that the endpoint gets, or their prefixes such as `push.*`"
        ),
    ]

    package mutating func validate(_ reader: SettingsReader, _ kakao: KakaoSettings) throws {
        guard (url == nil) == (secret == nil) else {
            throw reader.error(
                url == nil ? "webhooks.url" : "webhooks.secret",
                "is required: set the endpoint and its secret together."
            )
        }
        guard nextSecret == nil || secret != nil else {
            throw reader.error("webhooks.secret_next", "needs webhooks.secret.")
        }
    }

    /// The secrets that sign, the present one first.
    var secrets: [WebhookSecret] { [secret, nextSecret].compactMap(\.self) }
}

extension SettingKind where Value == WebhookURL {
    fileprivate static let webhookURL = SettingKind(
        "an `https` URL, or an `http` URL of this machine",
        problem:
            "must be a URL that begins with https://, or with http:// and a loopback address, without user name and password.",
        parse: { WebhookURL($0) },
        text: \.shown
    )
}

extension SettingKind where Value == WebhookSecret {
    fileprivate static let webhookSecret = SettingKind(
        "`whsec_` and 24 to 64 bytes in Base64",
        isSecret: true,
        problem: "must be whsec_ and 24 to 64 bytes in Base64, as echo whsec_$(openssl rand -base64 32) prints them.",
        parse: { WebhookSecret($0) },
        text: { _ in "" }
    )
}

extension SettingKind where Value == WebhookTypes {
    fileprivate static let webhookTypes = SettingKind(
        "types, or prefixes such as `push.*`, separated by commas",
        problem:
            "must be a comma-separated list of types, or of prefixes such as push.*. Types: \(WebhookTypes.choices.map(\.rawValue).joined(separator: ", ")).",
        parse: { text in SettingKind<[String]>.list(of: text) { !$0.isEmpty }.flatMap { WebhookTypes($0) } },
        text: { $0.patterns.joined(separator: ", ") },
        shown: { $0.patterns.isEmpty ? "all" : "`\($0.patterns.joined(separator: ", "))`" }
    )
}

/// The intervals by which webhooks are delivered. A server uses the defaults; tests shorten them.
package struct WebhookIntervals: Sendable {
    /// Those of the lease, which lasts twice as long as for pushes: webhooks can wait for another server.
    package var work = WorkIntervals(lease: .seconds(40))
    /// The time limit of a request.
    package var request = Duration.seconds(15)
    /// The first wait before the endpoint is probed, doubled after each failed probe.
    package var firstProbe = Duration.seconds(1)
    /// The longest such wait.
    package var longestProbe = Duration.seconds(300)
    /// The waits before the attempts at a webhook that the endpoint has not accepted (Standard Webhooks, "Deliverability and
    /// reliability").
    package var retries: [Duration] = [
        .seconds(5), .seconds(300), .seconds(1800), .seconds(7200), .seconds(18_000), .seconds(36_000),
        .seconds(50_400), .seconds(72_000), .seconds(86_400),
    ]
    /// The time after which a source is read without a notification.
    package var poll = Duration.seconds(60)
    /// The longest time between the reading of an event and its request. An event that has waited longer is read again, since it
    /// may have changed, or have been deleted with the data of its user.
    package var freshness = Duration.seconds(5)
    /// The time between two cleanups.
    package var cleanup = Duration.seconds(600)

    /// Creates the intervals of production.
    package init() {}
}
