package import Crypto
package import Identity
package import Settings

/// The settings of accounts: the keys that encrypt users' tokens, and the addresses that users return to after a login.
package struct AccountSettings: SettingsGroup {
    /// The key that encrypts tokens; `nil` if the server keeps none.
    package var encryptionKey: EncryptionKey?
    /// Further keys that decrypt tokens.
    package var decryptionKeys: [EncryptionKey] = []
    /// The addresses that users may return to after a login; empty if the server offers no login in a browser.
    package var returnURLs: [String] = []
    /// Whether the app uses OpenID Connect.
    package var usesOpenIDConnect = false
    /// The intervals of token refreshes, which tests shorten.
    package var refreshIntervals = RefreshIntervals()
    /// The limits of codes in browsers that Kakao rejects, which tests change.
    package var loginLimits = RejectionPace.Limits(
        // Half of the connections of an event loop, so that one network does not use up all while Kakao is slow.
        network: RejectionPace.Rate(rejections: 20, inFlight: 4, interval: .milliseconds(200)),
        server: RejectionPace.Rate(rejections: 200, inFlight: 64, interval: .milliseconds(50)),
        // A person who shares an address with an attacker waits behind the attacker's codes: there is room for 75.
        longestWait: .seconds(15)
    )

    package init() {}

    package static let settings: [Setting<AccountSettings>] = [
        Setting(
            "accounts.encryption_key",
            \.encryptionKey,
            optional: .encryptionKey,
            example: "/run/secrets/accounts_encryption_key",
            "the key that encrypts users' Kakao tokens in the database, from `openssl rand -base64 32`; without it the server keeps no tokens. Needs `kakao.app_id` ([accounts](accounts.md))"
        ),
        Setting(
            "accounts.decryption_keys",
            \.decryptionKeys,
            .encryptionKeys,
            example: "/run/secrets/accounts_decryption_keys",
            "further keys that decrypt tokens, for a change of the encryption key ([accounts](accounts.md#change-the-encryption-key))"
        ),
        Setting(
            "login.return_urls",
            \.returnURLs,
            .returnURLs,
            example: "https://www.example.com/login/done",
            "the addresses of your service that users may return to after `/login/kakao`, without query; without one `/login/kakao` is switched off. Needs `accounts.encryption_key`, `kakao.rest_api_key` and `http.public_url`"
        ),
        Setting(
            "login.openid_connect",
            \.usesOpenIDConnect,
            .boolean,
            "whether OpenID Connect is activated for the app at Kakao: `openid` is then added to the scopes that a login asks for, since Kakao issues no ID token without it"
        ),
    ]

    package mutating func validate(_ reader: SettingsReader, _ kakao: KakaoSettings) throws {
        guard encryptionKey == nil || kakao.appID != nil else {
            throw reader.error("accounts.encryption_key", "needs kakao.app_id: tokens belong to an app.")
        }
        guard decryptionKeys.isEmpty || encryptionKey != nil else {
            throw reader.error("accounts.decryption_keys", "needs accounts.encryption_key, which encrypts new tokens.")
        }
        guard !returnURLs.isEmpty else { return }
        guard encryptionKey != nil else {
            throw reader.error("login.return_urls", "needs accounts.encryption_key, which encrypts users' tokens.")
        }
        guard kakao.restAPIKey != nil else {
            throw reader.error("login.return_urls", "needs kakao.rest_api_key: users log in to the app with this key.")
        }
    }

    /// Returns the encryption of tokens; `nil` without a key.
    func vault(appID: Int64?) -> TokenVault? {
        guard let encryptionKey, let appID else { return nil }
        return TokenVault(appID: appID, key: encryptionKey, otherKeys: decryptionKeys)
    }
}

extension SettingKind where Value == [String] {
    /// Addresses of the service, which a browser is redirected to.
    fileprivate static let returnURLs = SettingKind(
        "URLs without a query, separated by commas",
        problem:
            "must be a comma-separated list of URLs that begin with https:// or http:// and have a host, without a query, a fragment or a user.",
        parse: { list(of: $0, where: ReturnAddress.isEntry) },
        text: { $0.joined(separator: ", ") },
        shown: { $0.isEmpty ? "none" : "`\($0.joined(separator: ", "))`" }
    )
}
