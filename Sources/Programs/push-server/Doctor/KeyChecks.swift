import Accounts
import Callbacks
import Crypto
import Identity
import Server
import Settings

/// Checks of the keys and secrets that need no other server.
struct KeyChecks {
    let settings: Settings

    func findings() -> [Finding] {
        [operatorKey(), feedbackSecret(), loginKeys(), encryptionKey(), returnURLs()]
    }

    /// Returns whether `text` has the form of the keys that Kakao gives an app: 32 hexadecimal digits.
    static func isKakaoKey(_ text: String) -> Bool {
        text.utf8.count == 32
            && text.utf8.allSatisfy { octet in
                switch octet {
                case 0x30...0x39, 0x41...0x46, 0x61...0x66: true
                default: false
                }
            }
    }

    private var adminKeys: [Secret] { [settings.kakao.adminKey, settings.kakao.nextAdminKey].compactMap(\.self) }

    private func operatorKey() -> Finding {
        let subject = "operator.key"
        let key = settings.identity.operatorKey.revealed
        if adminKeys.contains(where: { $0.matches(key) }) {
            return Finding(.wrong, subject, "is Kakao's Admin key: use another one, made with `openssl rand -hex 32`")
        }
        // A random text of 32 hexadecimal digits has nearly all of the 16 different digits.
        guard Set(key.utf8).count >= 10 else {
            return Finding(.wrong, subject, "has too few different characters: make one with `openssl rand -hex 32`")
        }
        return Finding(.ok, subject, "\(key.utf8.count) characters")
    }

    private func feedbackSecret() -> Finding {
        let subject = "feedback.secret"
        guard let secret = settings.identity.feedbackSecret else {
            return Finding(.skipped, subject, "not set: Kakao cannot report failed tokens")
        }
        guard !([settings.identity.operatorKey] + adminKeys).contains(secret) else {
            return Finding(.wrong, subject, "is also used as a key, but is part of a URL: use another one")
        }
        switch settings.publicURL {
        case nil:
            return Finding(.warning, subject, "pushes have no return_url for Kakao's reports: set http.public_url")
        case .given(let url):
            return Finding(.ok, subject, "pushes have the return_url \(url)\(CallbackFeature.feedbackPath)***")
        case .own:
            return Finding(.ok, subject, "pushes have a return_url on this machine")
        }
    }

    private func loginKeys() -> Finding {
        let subject = "identity.kakao_id_token"
        guard settings.identity.acceptsKakaoIDTokens else {
            return Finding(.skipped, subject, "off: ID tokens of Kakao are not accepted")
        }
        let kakao = settings.kakao
        let all = [
            ("kakao.native_app_key", kakao.nativeAppKey), ("kakao.rest_api_key", kakao.restAPIKey),
            ("kakao.javascript_key", kakao.javaScriptKey),
        ]
        let keys = all.compactMap { name, key in key.map { (name: name, key: $0) } }
        if let key = keys.first(where: { kakao.adminKey.matches($0.key) }) {
            return Finding(.wrong, subject, "\(key.name) is the Admin key: copy the right one from Kakao's console")
        }
        if let key = keys.first(where: { !Self.isKakaoKey($0.key) }) {
            return Finding(
                .warning,
                subject,
                "\(key.name) is not 32 hexadecimal digits: copy it again from Kakao's console"
            )
        }
        guard kakao.nativeAppKey != nil else {
            return Finding(
                .warning,
                subject,
                "ID tokens of the iOS and Android SDKs are refused: set kakao.native_app_key, which they are for"
            )
        }
        return Finding(.ok, subject, "accepted for \(keys.map(\.name).joined(separator: ", "))")
    }

    private func encryptionKey() -> Finding {
        let subject = "accounts.encryption_key"
        let accounts = settings.accounts
        guard let key = accounts.encryptionKey else {
            guard settings.kakao.clientSecret == nil, !accounts.usesOpenIDConnect else {
                return Finding(
                    .warning,
                    subject,
                    "not set, so the other settings of logins have no effect: make one with `openssl rand -base64 32`"
                )
            }
            return Finding(.skipped, subject, "not set: the server keeps no tokens of users")
        }
        let others = accounts.decryptionKeys.count
        return Finding(
            .ok,
            subject,
            "new tokens are encrypted with key \(key.id); \(others) \(others == 1 ? "key" : "keys") for decryption only"
        )
    }

    private func returnURLs() -> Finding {
        let subject = "login.return_urls"
        let urls = settings.accounts.returnURLs
        guard !urls.isEmpty else { return Finding(.skipped, subject, "not set: there is no /login/kakao") }
        guard settings.publicURL != nil else {
            return Finding(.wrong, subject, "Kakao cannot return browsers to this server: set http.public_url")
        }
        if let url = urls.map(WebAddress.init).first(where: { !$0.isHTTPS && !$0.isLoopback }) {
            return Finding(
                .warning,
                subject,
                "tickets are sent to \(url.host) unencrypted: use https://"
            )
        }
        return Finding(.ok, subject, urls.joined(separator: ", "))
    }
}
