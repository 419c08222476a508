package import HTTPServer

/// The reason why a credential is not accepted. Callers get one text for all of them, apart from ``tokensOff``; the access log, a metric
/// and, if `identity.explain_rejections` is set, the problem's detail name the reason. `docs/errors.md` lists all with their remedies.
package enum CredentialRejection: String, Error, Sendable, CaseIterable {
    // MARK: Any credential

    /// The request has no `Authorization`.
    case missing
    /// `Authorization` begins with neither `Bearer` nor `KakaoAK`.
    case unknownScheme = "unknown-scheme"

    // MARK: Keys

    /// No operator key has this text.
    case unknownKey = "unknown-key"
    /// The operator key has been revoked.
    case revokedKey = "revoked-key"
    /// The operator key has expired.
    case expiredKey = "expired-key"
    /// The public port beside a port for operators accepts no keys.
    case publicPort = "public-port"
    /// Kakao's Admin key was sent in place of an operator key.
    case adminKey = "admin-key"
    /// Another key of the app at Kakao was sent in place of an operator key.
    case appKey = "app-key"
    /// A call with an app key has no header field `KA`, or an invalid one.
    case noAgent = "no-agent"
    /// The session of the operator's page has ended, or its key has been revoked.
    case endedSession = "ended-session"
    /// A call in Kakao's name does not have the Admin key.
    case notAdminKey = "not-admin-key"

    // MARK: Tokens of users

    /// A user's token was sent to an operation that only operators may call.
    case userToken = "user-token"
    /// The settings accept no tokens of this kind. It is no 401, for which an app would log its user out.
    case tokensOff = "tokens-off"
    /// The call needs an access token of Kakao Login, and another token was sent.
    case notAccessToken = "not-access-token"
    /// The token has no valid form, or is signed with an unsupported algorithm.
    case malformedToken = "malformed-token"
    /// The token has expired.
    case expiredToken = "expired-token"
    /// The token is not valid yet.
    case prematureToken = "premature-token"
    /// Kakao does not know the access token: it was revoked, or the user has logged out.
    case unknownToken = "unknown-token"
    /// Kakao issued the access token for another app.
    case anotherApp = "another-app"
    /// The token's issuer is none of the accepted ones.
    case unknownIssuer = "unknown-issuer"
    /// The token's audience is none of the accepted ones.
    case anotherAudience = "another-audience"
    /// The issuer has no key of the token's `kid`, or its algorithm is not accepted.
    case unknownSigningKey = "unknown-signing-key"
    /// The token was not signed with the key that it names, or was changed since.
    case badSignature = "bad-signature"
    /// The token names no user: `sub` is no positive integer.
    case noUser = "no-user"

    /// The reason and its remedy in a sentence or two, without the credential.
    package var explanation: String {
        switch self {
        case .missing: "The request has no Authorization. Send a key or token as Authorization: Bearer KEY."
        case .unknownScheme: "Authorization must begin with Bearer or KakaoAK, followed by a space."
        case .unknownKey:
            "No operator key has this text. Check for missing characters; a user's token is not accepted here."
        case .revokedKey: "The operator key has been revoked. Create another one with `push-server keys create`."
        case .expiredKey: "The operator key has expired. Create another one with `push-server keys create`."
        case .publicPort: "The public port accepts no operator keys. Call the port of http.operator_port."
        case .adminKey:
            "This is Kakao's Admin key, which only this server holds. Send an operator key: `push-server keys create`."
        case .appKey:
            "This is one of the app's keys at Kakao. Send an operator key, or the access token of the user."
        case .noAgent: "A call with an app key needs the header KA, as Kakao's SDKs send it."
        case .endedSession: "The session has ended, or its key has been revoked. Sign in again."
        case .notAdminKey: "Only Kakao calls this path, with KakaoAK and the Admin key of kakao.admin_key."
        case .userToken: "Only operators may call this operation, and this is a user's token. Send an operator key."
        case .tokensOff:
            """
            This server accepts no users' tokens of this kind. Access tokens of Kakao Login need `kakao.app_id` and \
            `identity.kakao_access_token`, Kakao's ID tokens one of the app's keys and `identity.kakao_id_token`, and those of your \
            own backend `identity.jwt.issuer`. If it is meant as an operator key, it is not accepted.
            """
        case .notAccessToken: "This call needs an access token of Kakao Login, and this is another kind of token."
        case .malformedToken: "The token has no valid form. It may have been cut off, or encoded twice."
        case .expiredToken: "The token has expired. Refresh it and try again."
        case .prematureToken: "The token is not valid yet: compare its nbf and iat with this server's clock."
        case .unknownToken: "Kakao does not know the token. The user may have logged out: refresh it, or log in again."
        case .anotherApp: "Kakao issued the token for another app than kakao.app_id."
        case .unknownIssuer: "The token's iss is neither Kakao's, for ID tokens, nor identity.jwt.issuer."
        case .anotherAudience: "The token's aud is none of the app's keys, or not identity.jwt.audience."
        case .unknownSigningKey: "The token's kid names no key of its issuer, or its alg is not accepted."
        case .badSignature: "The token's signature does not match its contents and the issuer's key."
        case .noUser: "The token's sub is not the id of a user, which is a positive integer."
        }
    }
}

extension Problem {
    /// Returns the problem of a request whose credential is not accepted.
    ///
    /// - Parameter explains: Whether the detail says why.
    package func rejecting(_ reason: CredentialRejection, explains: Bool) -> Problem {
        var problem = self
        problem.reason = reason.rawValue
        if explains { problem.detail = reason.explanation }
        return problem
    }
}
