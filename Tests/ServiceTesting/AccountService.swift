import Accounts
import Crypto
package import Endpoints
import FoundationEssentials
package import HTTPClient
import HTTPTypes
import Identity
package import JSON
import KakaoAPI
package import KakaoSandbox
import Net
package import Server
import TestSupport
import Testing

@testable import Settings

extension Settings {
    /// The address of the service that users return to after a login.
    package static let returnURL = "https://shop.example.com/login/done"

    /// Sets what accounts need, with the sandbox as Kakao.
    package mutating func keepAccounts() {
        kakao.appID = 123_456
        kakao.authURL = kakao.apiURL
        kakao.restAPIKey = "sandbox-rest-api-key"
        kakao.nativeAppKey = "sandbox-native-app-key"
        kakao.clientSecret = Secret("sandbox-client-secret")
        identity.acceptsKakaoAccessTokens = true
        accounts.encryptionKey = EncryptionKey([UInt8](repeating: 7, count: 32))
        accounts.returnURLs = [Self.returnURL, "https://shop.example.com/account"]
    }
}

/// Runs `body` with a server that keeps accounts, its database and its sandbox.
package func withAccounts(
    _ adjust: (inout Settings) -> Void = { _ in },
    sandbox: KakaoSandboxSettings = KakaoSandboxSettings(),
    _ body: (TestService) async throws -> Void
) async throws {
    try await withService(
        { settings in
            settings.keepAccounts()
            adjust(&settings)
        },
        sandbox: sandbox,
        body
    )
}

extension TestService {
    /// Logs a user in through the sandbox with an authorization code, as a backend does.
    package func logIn(
        _ userID: Int64,
        appKey: String = "rest",
        with caller: TestClient? = nil
    ) async throws -> HTTPClientResponse {
        try await (caller ?? api).logIn(userID, at: kakao, appKey: appKey)
    }

    /// The redirect URI of codes that are requested without this server.
    package static let redirectURI = TestKakao.redirectURI

    /// Returns an authorization code of a user, as an app gets it.
    package func authorizationCode(
        of userID: Int64,
        clientID: String? = nil,
        _ more: KeyValuePairs<String, String> = [:]
    ) async throws -> String {
        try await kakao.authorizationCode(of: userID, clientID: clientID, more)
    }

    /// Returns the access token of an account, as another backend gets it.
    package func accessToken(of userID: Int64) async throws -> HTTPClientResponse {
        try await api.post("/v1/accounts/\(userID)/access-token")
    }

    /// Returns an account as operators see it.
    package func account(_ userID: Int64) async throws -> JSONValue? {
        try await api.get("/v1/accounts/\(userID)").json
    }

    /// Creates an operator key with some scopes.
    package func operatorKey(_ scopes: Scope...) async throws -> String {
        try await OperatorKeyStore(pool: database.pool).create(name: "made", scopes: Set(scopes), expiresAt: nil)
    }

    /// Makes the tokens of all accounts due for a refresh.
    package func expireAccessTokens() async throws {
        try await database.pool.write(
            "UPDATE accounts SET access_token_ends_at = now(), refresh_at = now(), retry_at = NULL"
        )
    }
}

extension TestKakao {
    fileprivate static let redirectURI = "https://app.example.com/callback"

    /// Returns an authorization code of a user, as an app gets it.
    fileprivate func authorizationCode(
        of userID: Int64,
        clientID: String? = nil,
        _ more: KeyValuePairs<String, String> = [:]
    ) async throws -> String {
        var query = FormBody()
        query.append("client_id", clientID ?? "sandbox-rest-api-key")
        query.append("redirect_uri", Self.redirectURI)
        query.append("response_type", "code")
        query.append("login_hint", String(userID))
        for (name, value) in more { query.append(name, value) }
        let answer = try await browser.get("/oauth/authorize?\(String(decoding: query.bytes, as: UTF8.self))")
        return try #require(answer.location?["code"], "\(answer.status) \(answer.text)")
    }
}

extension TestClient {
    /// Logs a user in through the sandbox with an authorization code, as a backend does.
    package func logIn(_ userID: Int64, at kakao: TestKakao, appKey: String = "rest") async throws -> HTTPClientResponse
    {
        let clientID = appKey == "rest" ? nil : "sandbox-native-app-key"
        let code = try await kakao.authorizationCode(of: userID, clientID: clientID)
        return try await post(
            "/v1/login/code",
            json: ["code": .string(code), "redirect_uri": .string(TestKakao.redirectURI), "app_key": .string(appKey)]
        )
    }
}

/// An address that a response redirects to.
package struct Location {
    /// The address without its query.
    package let base: String
    private let query: [String: String]

    package init(_ text: String) {
        let parts = text.split(separator: "?", maxSplits: 1)
        base = String(parts[0])
        let items = URLComponents(string: text)?.queryItems ?? []
        query = Dictionary(items.map { ($0.name, $0.value ?? "") }) { first, _ in first }
    }

    package subscript(name: String) -> String? { query[name] }
}

extension HTTPClientResponse {
    /// The address that the response redirects to; `nil` if it does not redirect.
    package var location: Location? { headerFields[.location].map(Location.init) }
}

/// A browser, which keeps the cookies of a server and follows no redirection by itself.
package struct Browser {
    private let server: TestClient
    package private(set) var cookies: [String: String] = [:]

    package init(_ server: TestClient) {
        self.server = server.with(nil)
    }

    package mutating func get(
        _ path: String,
        _ query: KeyValuePairs<String, String> = [:]
    ) async throws -> HTTPClientResponse {
        var caller = server
        if !cookies.isEmpty {
            caller.headerFields[.cookie] = cookies.map { "\($0.key)=\($0.value)" }.joined(separator: "; ")
        }
        let response = try await caller.get(path, query)
        for cookie in response.headerFields[values: .setCookie] {
            let pair = cookie.prefix { $0 != ";" }.split(separator: "=", maxSplits: 1)
            cookies[String(pair[0])] = cookie.contains("Max-Age=0") ? nil : String(pair[1])
        }
        return response
    }

    /// Goes through a login: to Kakao, and back to the server. Returns the server's last response.
    package mutating func logIn(
        at kakao: TestKakao,
        _ query: KeyValuePairs<String, String> = [:]
    ) async throws -> HTTPClientResponse {
        let start = try await get("/login/kakao", query)
        guard let address = start.headerFields[.location] else { return start }
        let back = try await kakao.browser.get(String(address.dropFirst(kakao.sandbox.url.utf8.count)))
        let callback = try #require(back.headerFields[.location], "\(back.status) \(back.text)")
        return try await get(String(callback.dropFirst(server.url.utf8.count)))
    }
}
