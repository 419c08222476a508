package import Crypto
import HTTPTypes
import JSON
import Schemas

/// The app key, and its client secret if the key has one, with which Kakao issues tokens.
package struct OAuthClient: Sendable {
    let id: String
    let secret: Secret?

    package init(id: String, secret: String?) {
        self.id = id
        self.secret = secret.map { Secret($0) }
    }
}

/// Requests tokens for an authorization code or a refresh token. (Kakao, "Kakao Login: REST API", "Request token" and
/// "Refresh token".)
///
/// A lost response cannot be repeated: a code can be used once, and a refresh may have replaced the refresh token.
package struct RequestToken: KakaoCall {
    package enum GrantType: String, Sendable, CaseIterable {
        case authorizationCode = "authorization_code"
        case refreshToken = "refresh_token"
    }

    package let grantType: GrantType
    package let clientID: String
    package let clientSecret: Secret?
    package let redirectURI: String?
    package let code: Secret?
    /// The secret whose SHA-256 digest was the `code_challenge` of the authorization (RFC 7636).
    package let codeVerifier: Secret?
    package let refreshToken: Secret?

    /// Exchanges an authorization code for tokens.
    ///
    /// - Parameters:
    ///   - redirectURI: The URI that the authorization was requested with.
    ///   - codeVerifier: The verifier, if the authorization was requested with a `code_challenge`.
    package static func exchanging(
        code: String,
        redirectURI: String,
        codeVerifier: String?,
        for client: OAuthClient
    ) -> RequestToken {
        RequestToken(
            grantType: .authorizationCode,
            clientID: client.id,
            clientSecret: client.secret,
            redirectURI: redirectURI,
            code: Secret(code),
            codeVerifier: codeVerifier.map { Secret($0) },
            refreshToken: nil
        )
    }

    /// Refreshes an access token.
    ///
    /// - Parameter client: The key that the refresh token was issued to.
    package static func refreshing(_ refreshToken: String, for client: OAuthClient) -> RequestToken {
        RequestToken(
            grantType: .refreshToken,
            clientID: client.id,
            clientSecret: client.secret,
            redirectURI: nil,
            code: nil,
            codeVerifier: nil,
            refreshToken: Secret(refreshToken)
        )
    }

    package static let operation = KakaoOperation<Self>(
        "oauth_token",
        [.post],
        "/oauth/token",
        host: .auth,
        .user,
        [.none],
        isIdempotent: false,
        "Requests tokens for an authorization code or a refresh token.",
        parameters: Record(
            .required("grant_type", \.grantType, .choice, "The kind of grant."),
            .required("client_id", \.clientID, .text, "The app key."),
            .optional("client_secret", \.clientSecret, .secret, "The client secret of the app key."),
            .optional("redirect_uri", \.redirectURI, .text, "The redirect URI of the authorization."),
            .optional("code", \.code, .secret, "The authorization code."),
            .optional("code_verifier", \.codeVerifier, .secret, "The verifier of the code challenge."),
            .optional("refresh_token", \.refreshToken, .secret, "The refresh token."),
            make: Self.init
        ),
        answer: .json(
            Answer.record.kind("Tokens"),
            example: Answer(
                accessToken: "access-token",
                expiresInSeconds: 21_599,
                refreshToken: "refresh-token",
                refreshTokenExpiresInSeconds: 5_184_000,
                scopes: ["profile_nickname"]
            )
        ),
        // Clients log users in with operations of the server's own, which keep the tokens.
        isRelayed: false,
        // A browser or another backend waits for the result.
        timeout: .seconds(10)
    )

    /// The tokens that Kakao issued. They are not printed.
    package struct Answer: Sendable {
        /// Visible ASCII characters.
        package let accessToken: String
        package let expiresInSeconds: Int64
        /// Always present for a code. A refresh issues another one only if less than a month is left of the one that was
        /// sent, which is then invalid.
        package let refreshToken: String?
        package let refreshTokenExpiresInSeconds: Int64?
        /// The ids of the scopes that the user has agreed to, if Kakao lists them.
        package let scopes: [String]?
        /// The ID token, if the scopes contain `openid`.
        package let idToken: String?

        package init(
            accessToken: String,
            expiresInSeconds: Int64,
            refreshToken: String? = nil,
            refreshTokenExpiresInSeconds: Int64? = nil,
            scopes: [String]? = nil,
            idToken: String? = nil
        ) {
            self.accessToken = accessToken
            self.expiresInSeconds = expiresInSeconds
            self.refreshToken = refreshToken
            self.refreshTokenExpiresInSeconds = refreshTokenExpiresInSeconds
            self.scopes = scopes
            self.idToken = idToken
        }

        private var tokenType: String? { "bearer" }

        fileprivate static let record = Record<Answer>(
            .optional("token_type", \.tokenType, .text, "Always `bearer`."),
            .required("access_token", \.accessToken, .visibleASCII(1...2048), "The access token."),
            .required("expires_in", \.expiresInSeconds, .lifetime, "The lifetime of the access token in seconds."),
            .optional("refresh_token", \.refreshToken, .visibleASCII(1...2048), "The refresh token."),
            .optional(
                "refresh_token_expires_in",
                \.refreshTokenExpiresInSeconds,
                .lifetime,
                "The lifetime of the refresh token in seconds."
            ),
            .optional("scope", \.scopes, .words, "The scopes, separated by spaces."),
            // An ID token contains the user's profile.
            .optional("id_token", \.idToken, .visibleASCII(1...16_384), "The ID token."),
            make: { _, accessToken, expiresIn, refreshToken, refreshTokenExpiresIn, scopes, idToken in
                Answer(
                    accessToken: accessToken,
                    expiresInSeconds: expiresIn,
                    refreshToken: refreshToken,
                    refreshTokenExpiresInSeconds: refreshTokenExpiresIn,
                    scopes: scopes,
                    idToken: idToken
                )
            }
        )
    }
}

extension RequestToken.Answer: CustomStringConvertible, CustomDebugStringConvertible, CustomReflectable {
    package var description: String { "Tokens(***)" }
    package var debugDescription: String { description }
    /// An empty mirror, so that `dump` does not show the tokens.
    package var customMirror: Mirror { Mirror(self, children: [:]) }
}

extension Kind where Value == Secret {
    /// A text that is not shown.
    fileprivate static var secret: Kind {
        Kind(text: .secret, allowed: "a text", parse: { Secret($0) }, format: \.revealed)
    }
}

extension Kind where Value == String {
    /// A text of visible ASCII characters, which may be sent in a header field.
    fileprivate static func visibleASCII(_ length: ClosedRange<Int>) -> Kind {
        let token = Kind.token(length)
        return Kind(token.input, allowed: token.allowed, read: token.read, write: { $1.value($0) })
    }
}

extension Kind where Value == [String] {
    /// Words in a text, separated by spaces.
    fileprivate static var words: Kind {
        Kind(
            text: .text(),
            allowed: "words separated by spaces",
            parse: { $0.split(separator: " ").map(String.init) },
            format: { $0.joined(separator: " ") }
        )
    }
}

extension Kind where Value == Int64 {
    /// A number of seconds from now. More than 68 years are read as 68 years, so that the sum with a time cannot overflow.
    fileprivate static var lifetime: Kind {
        let any = Kind.integer(0...Int64.max)
        return Kind(
            any.input,
            allowed: any.allowed,
            read: { value throws(InvalidValue) in min(try any.read(value), Int64(Int32.max)) },
            write: any.write
        )
    }
}
