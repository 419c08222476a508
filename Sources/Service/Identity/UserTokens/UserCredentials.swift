import Crypto
import Endpoints
import EventLoop
import HTTPClient
import JSON
import KakaoAPI
import Locking
import Logging
import Net
package import Postgres
import Runtime
import Settings

/// The user of a valid token.
enum TokenHolder: Sendable {
    case user(AuthorizedUser)
    /// A user who is not linked to the app yet: ``Caller/unlinkedUser``.
    case unlinked

    /// Whom the requests with the token count against.
    ///
    /// - Parameter digest: The SHA-256 of the token.
    func payer(_ digest: TokenDigest) -> Payer {
        switch self {
        case .user(let user): .user(user.id)
        case .unlinked: .token(digest)
        }
    }
}

/// The kinds of bearer token accepted from users, as enabled in the settings. Shared by all event loops.
package final class UserCredentials: Sendable {
    /// The verifier of Kakao's tokens for the app's keys, ID tokens and account events alike; `nil` without such a key.
    let kakao: TokenVerifier?
    private let accessTokens: KakaoAccessTokens?
    /// The verifiers of JSON Web Tokens, one for each issuer.
    private let verifiers: [TokenVerifier]
    /// The issuer of Kakao's ID tokens, whether or not they are accepted.
    private let kakaoIssuer: String
    /// The maximum number of ``verified`` tokens: a few megabytes.
    private static let maximumVerified = 65_536
    /// The users of tokens that were valid when they were last verified. Nothing follows from that but who pays for the next
    /// verification: the user, and not an address that the user may share with strangers.
    private let verified = Locked(LRUCache<TokenDigest, Payer>(limit: maximumVerified))

    /// - Throws: ``SettingsError`` for an unusable file of keys.
    init(_ identity: IdentitySettings, _ app: KakaoSettings, logger: Logger) throws {
        let connections = KakaoBudget.tokens.maximumConnections(app.maximumConcurrentRequests)
        accessTokens =
            identity.acceptsKakaoAccessTokens
            ? app.appID.map { KakaoAccessTokens(appID: $0, connections: connections) } : nil
        kakao = app.loginKeys.isEmpty ? nil : Self.kakao(identity, app, logger)
        var verifiers: [TokenVerifier] = []
        if identity.acceptsKakaoIDTokens, let kakao { verifiers.append(kakao) }
        if let backend = identity.backend { verifiers.append(try Self.backend(backend, identity, logger)) }
        self.verifiers = verifiers
        kakaoIssuer = app.authURL
    }

    /// Returns the verifier of Kakao's tokens, signed with RS256: ID tokens for the app key that the user logged in
    /// with, account events for the REST API key.
    private static func kakao(_ identity: IdentitySettings, _ app: KakaoSettings, _ logger: Logger) -> TokenVerifier {
        TokenVerifier(
            issuer: app.authURL,
            audiences: app.loginKeys,
            algorithms: [.rs256],
            keys: publishedKeys(app.keysURL, avoidsProxy: false, identity, logger)
        )
    }

    private static func publishedKeys(
        _ url: String,
        avoidsProxy: Bool,
        _ identity: IdentitySettings,
        _ logger: Logger
    ) -> TokenVerifier.Keys {
        .published(
            PublishedKeys(
                url: url,
                avoidsProxy: avoidsProxy,
                interval: identity.keyFetchInterval,
                refreshInterval: identity.keyRefreshInterval,
                logger: logger
            )
        )
    }

    /// Returns the verifier of tokens that the service's own backend issues.
    private static func backend(
        _ backend: IdentitySettings.Backend,
        _ identity: IdentitySettings,
        _ logger: Logger
    ) throws -> TokenVerifier {
        let keys: TokenVerifier.Keys
        var algorithms: Set<SignatureAlgorithm> = [.rs256, .es256]
        switch backend.keys {
        case .secret(let secret):
            keys = .shared(VerificationKey(secret: secret))
            algorithms = [.hs256]
        case .url(let url):
            keys = publishedKeys(url, avoidsProxy: true, identity, logger)
        case .file(let path):
            guard let set = FileContents.read(path).flatMap({ KeySet(json: $0) }), !set.isEmpty else {
                throw SettingsError(
                    place: "identity.jwt.keys_file",
                    message:
                        "\(path) is unreadable or has no usable key. Use a JSON Web Key Set with an RSA or P-256 key that has a kid."
                )
            }
            keys = .fixed(set)
        }
        return TokenVerifier(
            issuer: backend.issuer,
            audiences: [backend.audience],
            algorithms: algorithms,
            keys: keys
        )
    }

    /// Returns whether the settings accept tokens that look like this one: JSON Web Tokens, or access tokens of Kakao Login.
    func acceptsTokens(like text: String) -> Bool {
        JSONWebToken.isLike(text) || isDamaged(text) ? !verifiers.isEmpty : accessTokens != nil
    }

    /// Returns whether a text that cannot be an access token is a damaged JSON Web Token: its app has to send the right one.
    private func isDamaged(_ text: String) -> Bool { accessTokens == nil && JSONWebToken.beginsLike(text) }

    /// Returns the user of a token, or the reason why the token is rejected.
    ///
    /// - Parameters:
    ///   - network: The network of the caller; `nil` for a token of ``verifiedPayer(of:)``.
    ///   - isBackend: Whether the caller is a backend of the service, which sends the tokens of many users.
    ///   - kakao: The API client of `loop`. `client` belongs to the same event loop.
    ///   - loop: The caller's event loop.
    /// - Throws: ``Problem`` 503 when the token cannot be verified now, 429 when too many unknown tokens are sent.
    func holder(
        of token: String,
        _ digest: TokenDigest,
        from network: SocketAddress.Network?,
        isBackend: Bool,
        _ kakao: KakaoClient,
        _ client: HTTPClient,
        on loop: EventLoop
    ) async throws -> Result<TokenHolder, CredentialRejection> {
        let holder: Result<TokenHolder, CredentialRejection> =
            // Kakao's access tokens are not JSON Web Tokens. A JSON Web Token is never sent to Kakao: it may be another
            // issuer's.
            if JSONWebToken.isLike(token) {
                try await user(ofJSONWebToken: token, client, on: loop).map { .user($0) }
            } else {
                try await accessTokens?.holder(
                    of: token,
                    digest,
                    from: network,
                    isBackend: isBackend,
                    kakao,
                    on: loop
                ) ?? .failure(isDamaged(token) ? .malformedToken : .tokensOff)
            }
        verified.withLock { verified in
            switch holder {
            case .success(let holder): verified.set(holder.payer(digest), for: digest)
            case .failure: verified.remove(digest)
            }
        }
        return holder
    }

    private func user(
        ofJSONWebToken text: String,
        _ client: HTTPClient,
        on loop: EventLoop
    ) async throws -> Result<AuthorizedUser, CredentialRejection> {
        guard !verifiers.isEmpty else { return .failure(.tokensOff) }
        guard let token = JSONWebToken(text, .credential) else { return .failure(.malformedToken) }
        let issuer = token.claims["iss"]?.string
        guard let verifier = verifiers.first(where: { $0.issuer == issuer }) else {
            return .failure(issuer == kakaoIssuer ? .tokensOff : .unknownIssuer)
        }
        let now = MonotonicTime.now
        do {
            return try await verifier.verify(token, client, on: loop).map { AuthorizedUser(id: $0, authorizedAt: now) }
        } catch {
            throw error.problem
        }
    }

    /// Returns the user of a token that was verified recently, without asking the issuer.
    func cachedUser(of token: String, _ digest: TokenDigest) -> AuthorizedUser? {
        JSONWebToken.isLike(token) ? nil : accessTokens?.cachedUser(digest)
    }

    /// Returns whom a token counts against that was valid when it was last verified. It need not be valid any more.
    func verifiedPayer(of digest: TokenDigest) -> Payer? { verified.withLock { $0.value(digest) } }

    /// Invalidates cached tokens of the user that a notification names; of all users on (re)connection.
    package func receive(_ event: PostgresListener.Event) {
        accessTokens?.receive(event)
    }
}
