import Crypto
import HTTPClient
import HTTPServer
import HTTPTypes
import JSON
import KakaoAPI
import KakaoSandbox
import Net

/// The codes and tokens of Kakao Login.
extension Fixture {
    static let callback = "https://example.com/callback"
    static let client = OAuthClient(id: "sandbox-rest-api-key", secret: "sandbox-client-secret")
    static let nativeClient = OAuthClient(id: "sandbox-native-app-key", secret: nil)

    /// Calls `/oauth/authorize` as a browser does. An empty value leaves a parameter out.
    func authorize(_ changes: [String: String] = [:]) async throws -> HTTPClientResponse {
        var fields = [
            "client_id": "sandbox-rest-api-key", "redirect_uri": Self.callback, "response_type": "code",
            "state": "a b&c",
        ]
        fields.merge(changes) { $1 }
        var query = FormBody()
        for (name, value) in fields where !value.isEmpty { query.append(name, value) }
        let url = "\(sandbox.url)/oauth/authorize?\(String(decoding: query.bytes, as: UTF8.self))"
        return try await client.send(HTTPClientRequest(method: .get, url: url))
    }

    /// Returns the code of an authorization.
    func code(_ changes: [String: String] = [:]) async throws -> String {
        try await authorize(changes).redirection["code"] ?? ""
    }

    func exchange(
        _ code: String,
        redirectURI: String = Fixture.callback,
        verifier: String? = nil,
        for client: OAuthClient = Fixture.client
    ) async throws(KakaoError) -> RequestToken.Answer {
        let call = RequestToken.exchanging(
            code: code,
            redirectURI: redirectURI,
            codeVerifier: verifier,
            for: client
        )
        return try await kakao.call(call, as: .none)
    }

    func refresh(
        _ token: String?,
        for client: OAuthClient = Fixture.client
    ) async throws(KakaoError) -> RequestToken.Answer {
        try await kakao.call(RequestToken.refreshing(token ?? "", for: client), as: .none)
    }

    /// Returns the status of an access token's lookup.
    func status(of accessToken: String) async throws -> Int {
        try await call("/v1/user/access_token_info", method: .get, authorization: "Bearer \(accessToken)").status
    }
}

extension HTTPClientResponse {
    /// The parameters of a redirection to an app; empty for another response.
    var redirection: [String: String] {
        guard status == 302, let query = headerFields[.location]?.split(separator: "?", maxSplits: 1).last else {
            return [:]
        }
        let pairs = (try? FormURLEncoded.parse(Array(query.utf8)[...])) ?? []
        return Dictionary(pairs.map { ($0.name, $0.value) }) { first, _ in first }
    }
}

/// Returns the error of a call that is refused or fails, or `nil` if it succeeds.
func kakaoError(_ call: () async throws -> RequestToken.Answer) async -> KakaoError? {
    do {
        _ = try await call()
        return nil
    } catch {
        return error as? KakaoError
    }
}

/// Returns the KOE code of a call that is refused; `nil` if it succeeds or fails otherwise.
func refusal(_ call: () async throws -> RequestToken.Answer) async -> String? {
    await kakaoError(call)?.oauthError?.code
}

/// The challenge of a verifier by the method S256 (RFC 7636 §4.2).
func challenge(_ verifier: String) -> String {
    Base64URL.encode(SHA256Digest.of(verifier))
}
