package import HTTPClient
internal import JSON

extension KakaoClient {
    /// The User API.
    package var user: KakaoUserAPI { KakaoUserAPI(client: self) }
}

/// The part of Kakao's User API that is called in a user's name, with the access token that Kakao Login issued to the
/// user's app. (Kakao, "Kakao Login: REST API".)
package struct KakaoUserAPI: Sendable {
    /// The time limit of a call. It is short because a device waits for the result.
    private static let timeout = Duration.seconds(5)

    private let client: KakaoClient

    init(client: KakaoClient) {
        self.client = client
    }

    /// Creates the API on a client of the calling loop.
    ///
    /// - Parameter onCall: Called for every finished call, before its caller resumes.
    package init(
        settings: KakaoAPISettings,
        client: HTTPClient,
        onCall: @escaping @Sendable (KakaoCall) -> Void = { _ in }
    ) {
        self.init(client: KakaoClient(settings: settings, client: client, onCall: onCall))
    }

    /// Returns the user and the app of an access token: `GET /v1/user/access_token_info`.
    ///
    /// - Parameter token: Visible ASCII characters only, because it is sent in a header field.
    /// - Throws: ``KakaoError``, with code -401 for an invalid or expired token and -2 for a malformed one.
    package func accessTokenInfo(_ token: String) async throws(KakaoError) -> AccessTokenInfo {
        try await client.get(
            .accessTokenInfo,
            "/v1/user/access_token_info",
            authorization: "Bearer \(token)",
            timeout: Self.timeout
        ) { AccessTokenInfo(answer: $0) }
    }
}

/// Kakao's information about a valid access token.
package struct AccessTokenInfo: Sendable, Hashable {
    /// The user's id. `nil` if the user logged in but is not linked to the app yet: an app may link users manually.
    package let userID: Int64?
    /// The app that the user logged in to.
    package let appID: Int64
    /// The remaining lifetime of the token in seconds, 0 or more.
    package let expiresInSeconds: Int64

    /// Parses the response `{"id":…,"expires_in":…,"app_id":…}`. Older responses have `appId` and `expiresInMillis`.
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
