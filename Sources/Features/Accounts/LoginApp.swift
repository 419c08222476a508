import Crypto
import KakaoAPI
import Settings

/// The app keys at Kakao that tokens are issued for.
struct LoginApp: Sendable {
    /// Returns the settings of the app at present. A reload may replace the client secret.
    let settings: @Sendable () -> KakaoSettings

    /// The app keys that are set.
    var keys: [AppKeyKind] { AppKeyKind.allCases.filter { client($0) != nil } }

    /// Returns the client for an app key; `nil` if the key is not set.
    func client(_ key: AppKeyKind) -> OAuthClient? {
        let kakao = settings()
        switch key {
        // Kakao knows a client secret of the REST API key only.
        case .rest: return kakao.restAPIKey.map { OAuthClient(id: $0, secret: kakao.clientSecret?.revealed) }
        case .native: return kakao.nativeAppKey.map { OAuthClient(id: $0, secret: nil) }
        case .javascript: return kakao.javaScriptKey.map { OAuthClient(id: $0, secret: nil) }
        }
    }
}
