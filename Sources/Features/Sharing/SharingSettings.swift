package import Crypto
package import Settings

/// The settings of sharing.
package struct SharingSettings: SettingsGroup {
    /// The key that signs the arguments of shares; `nil` if this server creates none.
    package var signingKey: Secret?
    /// Further keys whose signatures are accepted.
    package var verificationKeys: [Secret] = []
    /// The names of the arguments by which statistics can be grouped.
    package var statisticsArgs: [String] = []
    /// The domains that are registered at Kakao; empty if they are not known.
    package var domains: [String] = []
    /// The visits of landing addresses from each address; `nil` for no limit.
    package var visitsPerMinutePerAddress: Int? = 600
    /// Those of them that are counted; `nil` for no limit.
    package var countedVisitsPerMinutePerAddress: Int? = 120
    package var images = ImageSettings()

    /// The signer of shares; `nil` without a key.
    package var signer: ShareSigner? { ShareSigner(signingKey: signingKey, verificationKeys: verificationKeys) }

    package init() {}

    package static let settings: [Setting<SharingSettings>] =
        [
            Setting(
                "sharing.signing_key",
                \.signingKey,
                optional: .secret(atLeast: 32),
                example: "/run/secrets/sharing_signing_key",
                "the key that signs the arguments of shares, for example from `openssl rand -hex 32`; without it the server creates no shares"
            ),
            Setting(
                "sharing.verification_keys",
                \.verificationKeys,
                .secrets(atLeast: 32),
                example: "/run/secrets/sharing_verification_keys",
                "further keys whose signatures are accepted, for a change of the signing key ([sharing](sharing.md#change-the-signing-key))"
            ),
            Setting(
                "sharing.statistics_args",
                \.statisticsArgs,
                .names(atMost: 5),
                example: "product_id, channel",
                "the custom arguments by which `GET /v1/link/stats` can group, at most five. They count from the time when they are set"
            ),
            Setting(
                "sharing.domains",
                \.domains,
                .domains,
                example: "example.com, www.example.com",
                "the domains that are registered at Kakao as site domains of the app, with the port if it is not the usual one. The linter reports links of templates to others, since Kakao drops them"
            ),
            Setting(
                "sharing.visits_per_minute_per_address",
                \.visitsPerMinutePerAddress,
                .limit,
                reloadable: true,
                "visits of landing addresses whose share has to be looked up in the database, from each IPv4 address or IPv6 /64, beyond which the response is 429; 0: no limit ([rate limits](#rate-limits))"
            ),
            Setting(
                "sharing.counted_visits_per_minute_per_address",
                \.countedVisitsPerMinutePerAddress,
                .limit,
                reloadable: true,
                "visits from each of them that are stored and counted; further ones are redirected all the same; 0: no limit ([sharing](sharing.md#read-what-shares-led-to))"
            ),
        ] + ImageSettings.settings.map { $0.of(\.images) }

    /// The settings of calls with an app key, which Kakao's client reads.
    package static let ofCalls: [Setting<KakaoSettings>] = [
        Setting(
            "sharing.app_key_calls",
            \.makesAppKeyCalls,
            .boolean,
            "whether the server validates templates and keeps images at Kakao with the app's native app key (or JavaScript key) as Kakao's SDKs do, which Kakao does not offer to servers, and relays such calls of phones and pages with these keys; needs `sharing.ka_header` ([relay](relay.md#calls-with-an-app-key))"
        ),
        Setting(
            "sharing.ka_header",
            \.kaHeader,
            optional: .text,
            example: "sdk/2.27.3 sdk_type/swift os/ios-17.0 lang/ko-KR device/iPhone origin/com.example.app",
            "the header field `KA` of these calls. Kakao compares its `origin` with the platforms of the app"
        ),
        Setting(
            "sharing.app_key_calls_per_day_per_network",
            \.appKeyCallsPerDayPerNetwork,
            .integer(1...1_000_000),
            reloadable: true,
            "calls of phones and pages with the app's own keys in a day, from each IPv4 address or IPv6 /64, beyond which the response is 429 ([rate limits](#rate-limits))"
        ),
        Setting(
            "sharing.app_key_calls_per_minute",
            \.appKeyCallsPerMinute,
            .integer(1...1_000_000),
            reloadable: true,
            "such calls of all networks together in a minute, so that strangers, who know these keys, cannot use up Kakao's quotas"
        ),
    ]

    package func validate(_ reader: SettingsReader, _ kakao: KakaoSettings) throws {
        if kakao.makesAppKeyCalls {
            guard kakao.nativeAppKey != nil || kakao.javaScriptKey != nil else {
                throw reader.error("sharing.app_key_calls", "needs kakao.native_app_key or kakao.javascript_key.")
            }
            guard kakao.kaHeader != nil else {
                throw reader.error("sharing.ka_header", "is required with sharing.app_key_calls.")
            }
        }
        // The list of keys is separated by commas, and a key moves from one setting to the other.
        if let signingKey, signingKey.revealed.utf8.contains(UInt8(ascii: ",")) {
            throw reader.error(
                "sharing.signing_key",
                "must not contain a comma, which separates the verification keys."
            )
        }
        try reader.requireSigned(statisticsArgs, in: "sharing.statistics_args")
    }
}

extension SettingsReader {
    /// Requires that the arguments that a setting names are signed in shares: that none is Kakao's own.
    ///
    /// - Throws: ``SettingsError``
    package func requireSigned(_ arguments: [String], in setting: String) throws {
        guard let name = arguments.first(where: ShareSigner.isOfKakao) else { return }
        throw error(setting, "must not contain \(name): names in capitals are Kakao's own, and are not signed.")
    }
}
