package import Crypto
package import Settings

/// The settings of shares that both the shares and Kakao's callbacks about them depend on.
package struct ShareSettings: SettingsGroup {
    /// The key that signs the arguments of shares; `nil` if this server creates none.
    package var signingKey: Secret?
    /// Further keys whose signatures are accepted.
    package var verificationKeys: [Secret] = []
    /// Whether link callbacks without a valid signature are dropped.
    package var requiresSignature = false
    /// The names of the arguments by which statistics can be grouped.
    package var statisticsArgs: [String] = []
    /// The argument that holds a user id; `nil` if none does.
    package var userIDArgument: String?

    /// The signer of shares; `nil` without a key.
    package var signer: ShareSigner? { ShareSigner(signingKey: signingKey, verificationKeys: verificationKeys) }

    package init() {}

    package static let settings: [Setting<ShareSettings>] = [
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
            "callbacks.require_signature",
            \.requiresSignature,
            .boolean,
            "whether Kakao Link callbacks without a valid signature are counted and dropped instead of stored; needs `sharing.signing_key` or `sharing.verification_keys` ([sharing](sharing.md#callbacks-that-cannot-be-forged))"
        ),
        Setting(
            "sharing.statistics_args",
            \.statisticsArgs,
            .names(atMost: 5),
            example: "product_id, channel",
            "the custom arguments by which `GET /v1/link/stats` can group, at most five. They count from the time when they are set"
        ),
        Setting(
            "callbacks.user_id_argument",
            \.userIDArgument,
            optional: .text,
            example: "member",
            "the custom argument of shares and Kakao Link callbacks that holds a user id: removed from them when that user is erased"
        ),
    ]

    package mutating func validate(_ reader: SettingsReader, _ kakao: KakaoSettings) throws {
        // The list of keys is separated by commas, and a key moves from one setting to the other.
        if let signingKey, signingKey.revealed.utf8.contains(UInt8(ascii: ",")) {
            throw reader.error(
                "sharing.signing_key",
                "must not contain a comma, which separates the verification keys."
            )
        }
        if requiresSignature, signer == nil {
            throw reader.error(
                "callbacks.require_signature",
                "needs sharing.signing_key or sharing.verification_keys: without a key no signature is valid."
            )
        }
        for (setting, names) in [
            ("sharing.statistics_args", statisticsArgs),
            ("callbacks.user_id_argument", userIDArgument.map { [$0] } ?? []),
        ] {
            guard let name = names.first(where: ShareSigner.isOfKakao) else { continue }
            throw reader.error(
                setting,
                "must not contain \(name): names in capitals are Kakao's own, and are not signed."
            )
        }
        if let userIDArgument, statisticsArgs.contains(userIDArgument) {
            throw reader.error(
                "sharing.statistics_args",
                "must not contain callbacks.user_id_argument: statistics are kept after the user is erased."
            )
        }
    }
}
