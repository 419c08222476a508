import Accounts
import Server
import Settings
import Sharing

/// A field of the app in Kakao's console, as `docs/kakao-console.md` lists it and `push-server doctor --console` prints it.
struct ConsoleField: Sendable {
    /// What stands in the field, and where it comes from.
    enum Value: Sendable {
        /// Copied from the console into this setting.
        case copied(String, isSet: @Sendable (Settings) -> Bool)
        /// An address of this server, entered in the console.
        case address(String, isNeeded: @Sendable (Settings) -> Bool = { _ in true })
        /// Something that no setting corresponds to.
        case other(String)
    }

    /// The name, as Kakao's documents have it.
    let name: String
    /// The menus that lead to it.
    let place: String
    let value: Value

    private init(_ name: String, _ place: String, _ value: Value) {
        self.name = name
        self.place = place
        self.value = value
    }

    /// The place of the REST API key, and of what belongs to it.
    static let restAPIKey = "[App] > [Platform Key] > [REST API Key]"

    /// The fields in the order of the page.
    static let all = [
        ConsoleField("app id", "top of the app's page", .copied("kakao.app_id") { $0.kakao.appID != nil }),
        ConsoleField("Admin key", "[App] > [Platform Key] > [Admin Key]", .copied("kakao.admin_key") { _ in true }),
        ConsoleField(
            "a second Admin key",
            "[App] > [Platform Key] > [Admin Key]",
            .copied("kakao.admin_key_next") { $0.kakao.nextAdminKey != nil }
        ),
        ConsoleField("REST API key", restAPIKey, .copied("kakao.rest_api_key") { $0.kakao.restAPIKey != nil }),
        ConsoleField("client secret", restAPIKey, .copied("kakao.client_secret") { $0.kakao.clientSecret != nil }),
        ConsoleField(
            "redirect URI",
            restAPIKey,
            .address(AccountFeature.redirectPath) { !$0.accounts.returnURLs.isEmpty }
        ),
        ConsoleField(
            "native app key",
            "[App] > [Platform Key] > [Native App Key]",
            .copied("kakao.native_app_key") { $0.kakao.nativeAppKey != nil }
        ),
        ConsoleField(
            "JavaScript key",
            "[App] > [Platform Key] > [JavaScript Key]",
            .copied("kakao.javascript_key") { $0.kakao.javaScriptKey != nil }
        ),
        ConsoleField(
            "allowed IP addresses",
            "security of the keys",
            .other("the servers' addresses, if there is a list")
        ),
        ConsoleField(
            "web domain",
            "[Product Link]",
            .copied("sharing.domains") { !$0.sharing.domains.isEmpty }
        ),
        ConsoleField("[Enable]", "[Push notification]", .other("on")),
        ConsoleField(
            "Android authentication information",
            "[Push notification]",
            .other("a service account of Firebase")
        ),
        ConsoleField("iOS authentication information", "[Push notification]", .other("an APNs key (.p8)")),
        ConsoleField("KakaoTalk Share webhook", "[App] > [Webhook]", .address("/kakao/link/callback")),
        ConsoleField("unlink webhook", "[App] > [Webhook]", .address("/kakao/unlink") { $0.kakao.appID != nil }),
        ConsoleField(
            "account status change webhook",
            "[App] > [Webhook]",
            .address("/kakao/account-events") { !$0.kakao.loginKeys.isEmpty }
        ),
        ConsoleField("KakaoTalk Channel webhook", "[App] > [Webhook]", .address("/kakao/channel")),
        ConsoleField("state", "[Kakao Login] > [Enable]", .other("on, for logins")),
        ConsoleField(
            "OpenID Connect",
            "[Kakao Login] > [OpenID Connect]",
            .other("on, for ID tokens: login.openid_connect")
        ),
        ConsoleField("consent items", "[Kakao Login] > [Consent items]", .other("those that the service needs")),
        ConsoleField(
            "permission",
            "[App] > [Request additional features]",
            .other("friends, messages to friends, Talk Calendar")
        ),
    ]

    /// Returns the address that is entered in the field; `nil` if there is none with these settings.
    func address(_ settings: Settings, at publicURL: String) -> String? {
        guard case .address(let path, let isNeeded) = value, isNeeded(settings) else { return nil }
        return publicURL + path
    }

    /// Returns the field as a row: its name, its place, its value, and whether the setting or the address is there. Contains no secret.
    func row(_ settings: Settings) -> [String] {
        let (value, state) =
            switch value {
            case .copied(let setting, let isSet): (setting, isSet(settings) ? "set" : "not set")
            case .address(let path, let isNeeded):
                if case .given(let url) = settings.publicURL {
                    (url + path, isNeeded(settings) ? "enter it" : "not needed with these settings")
                } else {
                    (path, "set http.public_url")
                }
            case .other(let text): (text, "only the console shows it")
            }
        return [name, place, value, state]
    }
}
