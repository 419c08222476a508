/// The keys and secrets by themselves, before anybody is asked about them.
struct KeyChecks {
    let settings: Settings

    func findings() -> [Finding] {
        [operatorKey(), feedbackSecret(), loginKeys()]
    }

    /// Whether a text looks like one of the keys that Kakao gives an app: 32 hexadecimal digits.
    static func isKakaoKey(_ text: String) -> Bool {
        text.utf8.count == 32
            && text.utf8.allSatisfy { octet in
                switch octet {
                case 0x30...0x39, 0x41...0x46, 0x61...0x66: true
                default: false
                }
            }
    }

    private func operatorKey() -> Finding {
        let subject = "operator.key"
        let key = settings.operatorKey.revealed
        if settings.kakao.adminKey.matches(key) {
            return Finding(.wrong, subject, "is Kakao's Admin key: make one of its own, as `openssl rand -hex 32` does")
        }
        // Of a random text of 32 hexadecimal digits nearly all of the 16 are there.
        guard Set(key.utf8).count >= 10 else {
            return Finding(.wrong, subject, "can be guessed: make a random one, as `openssl rand -hex 32` does")
        }
        return Finding(.ok, subject, "\(key.utf8.count) characters")
    }

    private func feedbackSecret() -> Finding {
        let subject = "feedback.secret"
        guard let secret = settings.feedbackSecret else {
            return Finding(.skipped, subject, "not set: Kakao cannot report tokens that have failed")
        }
        guard !settings.operatorKey.matches(secret.revealed), !settings.kakao.adminKey.matches(secret.revealed) else {
            return Finding(.wrong, subject, "is a key too, and stands in addresses: make one of its own")
        }
        switch settings.publicURL {
        case nil:
            return Finding(.warning, subject, "no message says where to report to: set http.public_url")
        case .given(let url):
            return Finding(.ok, subject, "messages have the return_url \(url)\(FeedbackRoutes.path)***")
        case .own:
            return Finding(.ok, subject, "messages have a return_url on this machine")
        }
    }

    private func loginKeys() -> Finding {
        let subject = "identity.kakao_id_token"
        guard settings.identity.acceptsKakaoIDTokens else {
            return Finding(.skipped, subject, "off: apps do not call with ID tokens of Kakao")
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
                "\(key.name) does not look like a key of Kakao's, which has 32 hexadecimal digits: copy it anew"
            )
        }
        guard kakao.nativeAppKey != nil else {
            return Finding(
                .warning,
                subject,
                "ID tokens of the SDKs for iOS and Android are refused: they are for kakao.native_app_key, which is not set"
            )
        }
        return Finding(.ok, subject, "for \(keys.map(\.name).joined(separator: ", "))")
    }
}
