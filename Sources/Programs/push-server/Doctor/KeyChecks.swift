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
        [
            Finding("operator.key", operatorKey()),
            Finding("feedback.secret", feedbackSecret()),
            Finding("identity.kakao_id_token", loginKeys()),
            Finding("accounts.encryption_key", encryptionKey()),
            Finding("login.return_urls", returnURLs()),
        ]
    }

    private var adminKeys: [Secret] { [settings.kakao.adminKey, settings.kakao.nextAdminKey].compactMap(\.self) }

    private func operatorKey() -> Verdict {
        let key = settings.identity.operatorKey.revealed
        if adminKeys.contains(where: { $0.matches(key) }) {
            return .wrong("is Kakao's Admin key: use another one, made with `openssl rand -hex 32`")
        }
        // A random text of 32 hexadecimal digits has nearly all of the 16 different digits.
        guard Set(key.utf8).count >= 10 else {
            return .wrong("has too few different characters: make one with `openssl rand -hex 32`")
        }
        return .ok("\(key.utf8.count) characters")
    }

    private func feedbackSecret() -> Verdict {
        guard let secret = settings.identity.feedbackSecret else {
            return .skipped("not set: Kakao cannot report failed tokens")
        }
        guard !([settings.identity.operatorKey] + adminKeys).contains(secret) else {
            return .wrong("is also used as a key, but is part of a URL: use another one")
        }
        switch settings.publicURL {
        case nil:
            return .warning("pushes have no return_url for Kakao's reports: set http.public_url")
        case .given(let url):
            return .ok("pushes have the return_url \(url)\(CallbackFeature.feedbackPath)***")
        case .own:
            return .ok("pushes have a return_url on this machine")
        }
    }

    private func loginKeys() -> Verdict {
        guard settings.identity.acceptsKakaoIDTokens else {
            return .skipped("off: ID tokens of Kakao are not accepted")
        }
        let kakao = settings.kakao
        let all = [
            ("kakao.native_app_key", kakao.nativeAppKey), ("kakao.rest_api_key", kakao.restAPIKey),
            ("kakao.javascript_key", kakao.javaScriptKey),
        ]
        let keys = all.compactMap { name, key in key.map { (name: name, key: $0) } }
        if let key = keys.first(where: { kakao.adminKey.matches($0.key) }) {
            return .wrong("\(key.name) is the Admin key: copy the right one from Kakao's console")
        }
        for (name, key) in keys where !kakao.isSandbox {
            guard let problem = KakaoSettings.problem(ofKey: key) else { continue }
            return .warning("\(name) does not look like a key of Kakao: \(problem)")
        }
        guard kakao.nativeAppKey != nil else {
            return .warning(
                "ID tokens of the iOS and Android SDKs are refused: set kakao.native_app_key, which they are for"
            )
        }
        return .ok("accepted for \(keys.map(\.name).joined(separator: ", "))")
    }

    private func encryptionKey() -> Verdict {
        let accounts = settings.accounts
        guard let key = accounts.encryptionKey else {
            guard settings.kakao.clientSecret == nil, !accounts.usesOpenIDConnect else {
                return .warning(
                    "not set, so the other settings of logins have no effect: make one with `openssl rand -base64 32`"
                )
            }
            return .skipped("not set: the server keeps no tokens of users")
        }
        let others = accounts.decryptionKeys.count
        return .ok(
            "new tokens are encrypted with key \(key.id); \(others) \(others == 1 ? "key" : "keys") for decryption only"
        )
    }

    private func returnURLs() -> Verdict {
        let urls = settings.accounts.returnURLs
        guard !urls.isEmpty else { return .skipped("not set: there is no /login/kakao") }
        guard settings.publicURL != nil else {
            return .wrong("Kakao cannot return browsers to this server: set http.public_url")
        }
        if let url = urls.map(WebAddress.init).first(where: { !$0.isHTTPS && !$0.isLoopback }) {
            return .warning("tickets are sent to \(url.host) unencrypted: use https://")
        }
        return .ok(urls.joined(separator: ", "))
    }
}
