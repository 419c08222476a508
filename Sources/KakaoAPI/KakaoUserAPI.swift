package import HTTPClient
internal import JSON

extension KakaoClient {
    /// The User API.
    package var user: KakaoUserAPI { KakaoUserAPI(client: self) }
}

/// Kakao's User API, as far as it is called in a user's name: with the access token that Kakao Login gave the user's app.
/// (Kakao, "Kakao Login: REST API".)
package struct KakaoUserAPI: Sendable {
    /// How long a question may take: a phone waits for the answer.
    private static let timeout = Duration.seconds(5)

    private let client: KakaoClient

    init(client: KakaoClient) {
        self.client = client
    }

    /// The API over a client of the calling loop.
    ///
    /// - Parameter onCall: Told of every call when it has ended, before its caller is.
    package init(
        settings: KakaoAPISettings,
        client: HTTPClient,
        onCall: @escaping @Sendable (KakaoCall) -> Void = { _ in }
    ) {
        self.init(client: KakaoClient(settings: settings, client: client, onCall: onCall))
    }

    /// Whose token it is, and of which app: `GET /v1/user/access_token_info`.
    ///
    /// - Parameter token: Visible ASCII characters: it becomes a header field.
    /// - Throws: ``KakaoError``: code -401 for a token that is not or no longer in force, -2 for what is no token.
    package func accessTokenInfo(_ token: String) async throws(KakaoError) -> AccessTokenInfo {
        try await client.get(
            .accessTokenInfo,
            "/v1/user/access_token_info",
            authorization: "Bearer \(token)",
            timeout: Self.timeout
        ) { AccessTokenInfo(answer: $0) }
    }
}

/// What Kakao says of an access token that is in force.
package struct AccessTokenInfo: Sendable, Hashable {
    /// `nil` for somebody who logged in and has not been linked with the app: an app may do that step by hand.
    package let userID: Int64?
    /// The app that the user logged in to.
    package let appID: Int64
    /// Seconds that the token goes on being in force, 0 or more.
    package let expiresInSeconds: Int64

    /// Reads the answer, `{"id":…,"expires_in":…,"app_id":…}`. Older answers have `appId` and `expiresInMillis`.
    init?(answer: [UInt8]) {
        guard let info = try? JSONValue(parsing: answer, maximumDepth: 8),
            let appID = (info["app_id"] ?? info["appId"])?.integer,
            let seconds = info["expires_in"]?.integer ?? info["expiresInMillis"]?.integer.map({ $0 / 1000 }),
            seconds >= 0
        else { return nil }
        userID = info["id"]?.integer
        self.appID = appID
        expiresInSeconds = seconds
    }
}
