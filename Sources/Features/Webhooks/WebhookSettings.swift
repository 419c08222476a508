package import Runtime
package import Settings

/// The settings of outgoing webhooks.
package struct WebhookSettings: SettingsGroup {
    /// The maximum number of endpoints.
    package static let maximumEndpoints = 8

    /// The endpoint ``WebhookEndpoint/defaultName``; `nil` if there is none.
    package var url: WebhookURL?
    package var secret: WebhookSecret?
    /// A second secret that signs as well, while receivers change from one to the other.
    package var nextSecret: WebhookSecret?
    package var types = WebhookTypes()
    /// Further endpoints.
    package var endpoints: [WebhookEndpoint] = []
    package var retentionDays = 30
    /// The intervals of the delivery, which tests shorten.
    package var intervals = WebhookIntervals()

    package init() {}

    package static let settings: [Setting<WebhookSettings>] = [
        Setting(
            "webhooks.url",
            \.url,
            optional: .webhookURL,
            example: "https://backend.example.com/webhooks",
            reloadable: true,
            "the endpoint that gets a webhook for each event ([webhooks](webhooks.md)). Its name is `default`"
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
            reloadable: true,
            "the types of webhooks that the endpoint gets, or their prefixes such as `push.*`"
        ),
        Setting(
            "webhooks.endpoints",
            \.endpoints,
            listOf: .webhookEndpoint,
            reloadable: true,
            "further endpoints, up to \(maximumEndpoints) in all, each with a `name` of a-z, 0-9 and -, and with a secret of its own"
        ),
        Setting(
            "webhooks.retention_days",
            \.retentionDays,
            .integer(1...3650),
            "days for which a webhook is stored, and can be [replayed](webhooks.md#replay). One that waits is stored longer"
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
        let names = all.map(\.name)
        if let name = names.first(where: { name in names.count { $0 == name } > 1 }) {
            throw reader.error("webhooks.endpoints", "must have different names: \(name) is given twice.")
        }
        guard names.count <= Self.maximumEndpoints else {
            throw reader.error(
                "webhooks.endpoints",
                "has too many endpoints: at most \(Self.maximumEndpoints) are allowed, with that of webhooks.url."
            )
        }
    }

    /// All endpoints: first that of the single settings.
    package var all: [WebhookEndpoint] {
        guard let url, let secret else { return endpoints }
        let secrets = [secret, nextSecret].compactMap(\.self)
        let single = WebhookEndpoint(name: WebhookEndpoint.defaultName, url: url, secrets: secrets, types: types)
        return [single] + endpoints
    }
}

/// An endpoint as the settings describe it: a receiver of webhooks.
package struct WebhookEndpoint: Sendable, Equatable {
    /// The name of the endpoint of the single settings.
    package static let defaultName = "default"

    /// The name by which operators and the database know it.
    package let name: String
    package let url: WebhookURL
    /// The secrets that sign, the present one first.
    package let secrets: [WebhookSecret]
    /// The types of webhooks that it gets.
    package let types: WebhookTypes

    /// Creates an endpoint with at least one secret.
    package init(name: String, url: WebhookURL, secrets: [WebhookSecret], types: WebhookTypes) {
        self.name = name
        self.url = url
        self.secrets = secrets
        self.types = types
    }
}

extension SettingMapping where Value == WebhookEndpoint {
    fileprivate static let webhookEndpoint = SettingMapping([
        SettingMember("name", example: "billing"),
        SettingMember("url", example: "https://billing.example.com/webhooks"),
        SettingMember("secret", isSecret: true, example: "/run/secrets/webhooks_billing"),
        SettingMember("secret_next", isSecret: true),
        SettingMember("types", example: "push.*, sender.*"),
    ]) { reader in
        let secret = try reader.required("secret", .webhookSecret)
        let nextSecret = try reader.value("secret_next", .webhookSecret)
        return try WebhookEndpoint(
            name: reader.required("name", .webhookEndpointName),
            url: reader.required("url", .webhookURL),
            secrets: [secret, nextSecret].compactMap(\.self),
            types: reader.value("types", .webhookTypes) ?? WebhookTypes()
        )
    }
}

extension SettingKind where Value == String {
    fileprivate static let webhookEndpointName = SettingKind(
        "1 to 32 characters: a-z, 0-9 and -",
        problem:
            "must have 1 to 32 characters of a-z, 0-9 and -, and not be default, the name of the endpoint of webhooks.url.",
        parse: { text in
            let isAllowed = text.utf8.allSatisfy { octet in
                switch octet {
                case 0x30...0x39, 0x61...0x7A, UInt8(ascii: "-"): true
                default: false
                }
            }
            let isFree = text != WebhookEndpoint.defaultName
            return isAllowed && isFree && (1...32).contains(text.utf8.count) ? text : nil
        },
        text: \.self
    )
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
    /// The first wait before a failing endpoint is probed, doubled after each failed probe.
    package var firstProbe = Duration.seconds(1)
    /// The longest such wait.
    package var longestProbe = Duration.seconds(300)
    /// The waits before the attempts at a webhook that an endpoint has not accepted (Standard Webhooks, "Deliverability and
    /// reliability").
    package var retries: [Duration] = [
        .seconds(5), .seconds(300), .seconds(1800), .seconds(7200), .seconds(18_000), .seconds(36_000),
        .seconds(50_400), .seconds(72_000), .seconds(86_400),
    ]
    /// The longest time between the claim of a webhook and its request. One that has waited longer is claimed again, since it
    /// may have been deleted with the data of its user.
    package var freshness = Duration.seconds(5)
    /// The time after the end of a probe's request in which its result is stored, before another server probes the endpoint.
    package var probeMargin = Duration.seconds(5)
    /// The time between two cleanups.
    package var cleanup = Duration.seconds(600)
    /// The time between two steps of a replay.
    package var replay = Duration.seconds(1)

    /// Creates the intervals of production.
    package init() {}
}
