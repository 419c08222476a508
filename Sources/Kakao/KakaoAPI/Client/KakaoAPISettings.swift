/// The addresses of Kakao's REST API and the keys for it.
package struct KakaoAPISettings: Sendable {
    /// Scheme, host and port, with or without a trailing slash, and an optional path prefix for a gateway.
    package var apiURL: String
    /// The same for Kakao's authorization server.
    package var authURL: String
    package var adminKey: KakaoKey
    /// The REST API key, for calls with ``KakaoCredential/restAPIKey``; `nil` if they are made with the Admin key.
    package var restAPIKey: KakaoKey?
    /// The credential of calls for the app as a whole that accept its REST API key.
    package var appCredential: KakaoCredential { restAPIKey == nil ? .adminKey : .restAPIKey }
    /// The key and the header field `KA` of the app for calls with ``KakaoCredential/appKey``; `nil` if there is none.
    package var app: KakaoAppKey?
    /// The version of the Push API to use.
    package var pushVersion: PushVersion
    /// Whether the users to delete from a customer file are objects: see ``CustomerReference``.
    package var sendsCustomerObjects = false

    package init(
        apiURL: String = "https://kapi.kakao.com",
        authURL: String = "https://kauth.kakao.com",
        adminKey: KakaoKey,
        restAPIKey: KakaoKey? = nil,
        app: KakaoAppKey? = nil,
        pushVersion: PushVersion = .v1
    ) {
        self.apiURL = apiURL
        self.authURL = authURL
        self.adminKey = adminKey
        self.restAPIKey = restAPIKey
        self.app = app
        self.pushVersion = pushVersion
    }
}
