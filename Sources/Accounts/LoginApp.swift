internal import Crypto
internal import KakaoAPI
internal import ServiceKit

/// The app keys at Kakao that tokens are issued for.
struct LoginApp: Sendable {
    private let clients: [AppKeyKind: OAuthClient]

    init(_ kakao: KakaoSettings) {
        var clients: [AppKeyKind: OAuthClient] = [:]
        // Kakao knows a client secret of the REST API key only.
        clients[.rest] = kakao.restAPIKey.map { OAuthClient(id: $0, secret: kakao.clientSecret?.revealed) }
        clients[.native] = kakao.nativeAppKey.map { OAuthClient(id: $0, secret: nil) }
        clients[.javascript] = kakao.javaScriptKey.map { OAuthClient(id: $0, secret: nil) }
        self.clients = clients
    }

    /// The app keys that are set.
    var keys: [AppKeyKind] { AppKeyKind.allCases.filter { clients[$0] != nil } }

    /// Returns the client for an app key; `nil` if the key is not set.
    func client(_ key: AppKeyKind) -> OAuthClient? { clients[key] }
}
