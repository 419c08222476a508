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
        ] + ImageSettings.settings.map { $0.of(\.images) }

    package func validate(_ reader: SettingsReader, _ kakao: KakaoSettings) throws {
        // The list of keys is separated by commas, and a key moves from one setting to the other.
        if let signingKey, signingKey.revealed.utf8.contains(UInt8(ascii: ",")) {
            throw reader.error(
                "sharing.signing_key",
                "must not contain a comma, which separates the verification keys."
            )
        }
        if let name = statisticsArgs.first(where: ShareSigner.isOfKakao) {
            throw reader.error("sharing.statistics_args", ShareSigner.isOfKakaoRemedy(name))
        }
    }
}
