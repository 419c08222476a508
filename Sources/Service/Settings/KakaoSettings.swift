package import Crypto
package import HTTPClient
package import KakaoAPI

/// The settings of the app at Kakao and of the calls to Kakao.
package struct KakaoSettings: SettingsGroup {
    package var adminKey = Secret("")
    /// Another Admin key that Kakao's calls may present, while the keys are exchanged.
    package var nextAdminKey: Secret?
    package var appID: Int64?
    /// The name of the app, for people.
    package var appName: String?
    /// The key with which customer files are managed.
    package var customerFilesKey = CustomerFilesKey.restAPI
    /// The form in which uploads delete users from customer files.
    package var customerReferences = CustomerReferences.texts
    package var restAPIKey: String?
    package var nativeAppKey: String?
    package var javaScriptKey: String?
    /// The secret of the REST API key, with which Kakao issues tokens.
    package var clientSecret: Secret?
    package var apiURL = "https://kapi.kakao.com"
    package var authURL = "https://kauth.kakao.com"
    package var caCertificateFile: String?
    /// The proxy through which the server calls Kakao.
    package var proxy: HTTPProxy?
    package var pushVersion = PushVersion.v1
    package var maximumConcurrentRequests = 32
    package var requestsPerSecond: Int?
    /// What follows from a call with Kakao's credential that comes from another address than Kakao's.
    package var sourceAddresses = SourceAddressPolicy.record
    /// The time limit of calls that declare no other. Tests that hold Kakao's responses back lengthen it.
    package var callTimeout = Duration.seconds(10)
    /// Whether the server makes calls with an app key, as Kakao's SDKs do: `sharing.app_key_calls`.
    package var makesAppKeyCalls = false
    /// The header field `KA` of such calls: `sharing.ka_header`.
    package var kaHeader: String?
    /// The calls with the app's own keys that each network may make in a day, and those of all networks in a minute.
    package var appKeyCallsPerDayPerNetwork = 1000
    package var appKeyCallsPerMinute = 60

    /// The app keys with which a user may have logged in. ID tokens and account events have one as their audience.
    package var loginKeys: Set<String> { Set([restAPIKey, nativeAppKey, javaScriptKey].compactMap(\.self)) }

    /// The URL of the keys with which Kakao signs ID tokens.
    package var keysURL: String { authURL + "/.well-known/jwks.json" }

    /// The keys with which phones and pages may call. They are no secrets, since each copy of the app has them.
    package var publicKeys: Set<String> { Set([nativeAppKey, javaScriptKey].compactMap(\.self)) }

    /// A key with which Kakao accepts calls about customer files.
    package enum CustomerFilesKey: String, CaseIterable, Sendable {
        case restAPI = "rest_api"
        case admin
    }

    /// A form of the users to delete from a customer file, of which Kakao's documentation shows none.
    package enum CustomerReferences: String, CaseIterable, Sendable {
        case texts, objects
    }

    /// The identity of the app for calls with an app key; `nil` if the server makes none.
    private var app: KakaoAppKey? {
        guard makesAppKeyCalls, let key = nativeAppKey ?? javaScriptKey, let kaHeader else { return nil }
        return KakaoAppKey(key: KakaoKey(key), ka: kaHeader)
    }

    /// The settings of the client of Kakao's REST API.
    package var api: KakaoAPISettings {
        var api = KakaoAPISettings(
            apiURL: apiURL,
            authURL: authURL,
            adminKey: KakaoKey(adminKey.revealed),
            restAPIKey: customerFilesKey == .restAPI ? restAPIKey.map(KakaoKey.init) : nil,
            app: app,
            pushVersion: pushVersion
        )
        api.sendsCustomerObjects = customerReferences == .objects
        return api
    }

    package init() {}

    /// The length of the shortest secret, in characters. Kakao's have 32. A shorter one cannot be masked in the texts of Kakao's errors,
    /// since it would occur in ordinary words.
    private static let shortestSecret = 8

    package static let settings: [Setting<KakaoSettings>] = [
        .required(
            "kakao.admin_key",
            \.adminKey,
            .secret(atLeast: shortestSecret),
            example: "/run/secrets/kakao_admin_key",
            reloadable: true,
            "the app's Admin key at Kakao, with which the server calls Kakao, and Kakao the server"
        ),
        Setting(
            "kakao.admin_key_next",
            \.nextAdminKey,
            optional: .secret(atLeast: shortestSecret),
            example: "/run/secrets/kakao_admin_key_next",
            reloadable: true,
            "a second Admin key that calls from Kakao may present, while the Admin key is changed ([how to change it](#a-new-admin-key))"
        ),
        Setting(
            "kakao.app_id",
            \.appID,
            optional: .identifier,
            example: "123456",
            "the app id at Kakao: access tokens must belong to this app; required for `/kakao/unlink`"
        ),
        Setting(
            "kakao.app_name",
            \.appName,
            optional: .text,
            example: "Example Shop",
            "the app's name, which the command line shows when it asks before it sends a push"
        ),
        Setting(
            "kakao.rest_api_key",
            \.restAPIKey,
            optional: .text,
            "the app's REST API key. ID tokens and account events must be issued for one of the app's three keys; at least one is required for `/kakao/account-events`"
        ),
        Setting(
            "kakao.customer_files_key",
            \.customerFilesKey,
            .choice,
            "the key with which [customer files](channels.md#customer-files) are managed: `rest_api` (the Admin key, if `kakao.rest_api_key` is not set) or `admin`"
        ),
        Setting(
            "kakao.customer_references",
            \.customerReferences,
            .choice,
            "the form in which [uploads](channels.md#uploads) delete users from customer files, which Kakao does not document: `texts` (`[\"1234\"]`) or `objects` (`[{\"id\":\"1234\"}]`)"
        ),
        Setting("kakao.native_app_key", \.nativeAppKey, optional: .text, "the app's native app key"),
        Setting("kakao.javascript_key", \.javaScriptKey, optional: .text, "the app's JavaScript key"),
        Setting(
            "kakao.client_secret",
            \.clientSecret,
            optional: .secret(atLeast: shortestSecret),
            example: "/run/secrets/kakao_client_secret",
            reloadable: true,
            "the client secret of the REST API key, if it is activated at Kakao; required then for logins"
        ),
        Setting("kakao.api_url", \.apiURL, .url, "the base URL of Kakao's API"),
        Setting(
            "kakao.auth_url",
            \.authURL,
            .url,
            "the URL of Kakao Login: the issuer of ID tokens and account events, which publishes their keys"
        ),
        Setting(
            "kakao.ca_certificate_file",
            \.caCertificateFile,
            optional: .path,
            "CA certificates (PEM) to trust for Kakao's addresses instead of the system's: for the sandbox"
        ),
        Setting(
            "kakao.proxy_url",
            \.proxy,
            optional: .httpProxy,
            example: "http://proxy.example.com:3128",
            "the HTTP proxy through which the server calls Kakao, for machines without a direct way out. Webhooks are sent, and `identity.jwt.keys_url` is fetched, without it"
        ),
        Setting("kakao.push_version", \.pushVersion, .choice, "the version of Kakao's Push API to call"),
        Setting(
            "kakao.max_concurrent_requests",
            \.maximumConcurrentRequests,
            .integer(1...1000),
            "concurrent push requests to Kakao, for each server; each event loop has as many for requests of apps and operators, as many for look-ups of access tokens, and a quarter each for logins in browsers, for the codes of `POST /v1/login/code`, for calls with the app's own keys, and for background work"
        ),
        Setting(
            "kakao.requests_per_second",
            \.requestsPerSecond,
            optional: .integer(1...100_000),
            reloadable: true,
            "push requests to Kakao a second, for each server"
        ),
        Setting(
            "kakao.source_addresses",
            \.sourceAddresses,
            .choice,
            reloadable: true,
            "calls with Kakao's credential that come from other addresses than those that Kakao publishes: `record` counts and logs them, `refuse` answers them 403, `off` does not ask Kakao for its addresses ([Kakao's addresses](callbacks.md#kakaos-addresses))"
        ),
    ]
}

/// What follows from a call with Kakao's credential that comes from another address than those that Kakao publishes.
package enum SourceAddressPolicy: String, CaseIterable, Sendable {
    /// Nothing: Kakao's addresses are not known.
    case off
    /// It is counted and logged.
    case record
    /// It is also refused, as far as its address is certain and the list of Kakao's is recent.
    case refuse
}

extension KakaoSettings {
    /// Returns why `key` cannot be one of the keys that Kakao gives an app, which are 32 hexadecimal digits; `nil` if
    /// it may be one. It does not quote the key.
    package static func problem(ofKey key: String) -> String? {
        guard key.utf8.count != 32 || !key.utf8.allSatisfy({ Character(Unicode.Scalar($0)).isHexDigit }) else {
            return nil
        }
        guard let first = key.first, first == key.last, key.count > 1, "\"'".contains(first) else {
            return "it is not 32 hexadecimal digits; copy it again from Kakao's console"
        }
        return "it is in quotes, which `docker run --env-file` does not remove; remove them"
    }
}

extension SettingKind where Value == HTTPProxy {
    fileprivate static let httpProxy = SettingKind(
        "`http://host:port` or `http://user:password@host:port`",
        isSecret: true,
        problem: "must be http://host:port or http://user:password@host:port, with user and password percent-encoded.",
        parse: { HTTPProxy(url: $0) },
        text: { _ in "" }
    )
}
