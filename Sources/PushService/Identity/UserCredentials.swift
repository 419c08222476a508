internal import EventLoop
internal import HTTPClient
internal import HTTPServer
internal import JSON
internal import KakaoAPI
internal import Logging
internal import Postgres

/// The kinds of bearer token that a user may call with, as the settings switch them on: shared by all loops.
final class UserCredentials: Sendable {
    /// What Kakao signs for the app's keys, ID tokens and account events alike; `nil` without such a key.
    let kakao: TokenVerifier?
    private let accessTokens: KakaoAccessTokens?
    /// Of those who issue JSON Web Tokens, each by its own name.
    private let verifiers: [TokenVerifier]

    /// - Throws: ``SettingsError`` for a file of keys that cannot be used.
    init(_ settings: Settings, logger: Logger) throws {
        let identity = settings.identity
        accessTokens = identity.acceptsKakaoAccessTokens ? settings.kakao.appID.map(KakaoAccessTokens.init) : nil
        kakao = settings.kakao.loginKeys.isEmpty ? nil : Self.kakao(settings, logger)
        var verifiers: [TokenVerifier] = []
        if identity.acceptsKakaoIDTokens, let kakao { verifiers.append(kakao) }
        if let backend = identity.backend { verifiers.append(try Self.backend(backend, identity, logger)) }
        self.verifiers = verifiers
    }

    /// Kakao, which signs with RS256: ID tokens for the app key that the user logged in with, account events for the REST API key.
    private static func kakao(_ settings: Settings, _ logger: Logger) -> TokenVerifier {
        let url = settings.kakao.keysURL
        return TokenVerifier(
            issuer: settings.kakao.authURL,
            audiences: settings.kakao.loginKeys,
            algorithms: [.rs256],
            keys: publishedKeys(url, settings.identity, logger)
        )
    }

    private static func publishedKeys(
        _ url: String,
        _ identity: Settings.Identity,
        _ logger: Logger
    ) -> TokenVerifier.Keys {
        .published(
            PublishedKeys(
                url: url,
                interval: identity.keyFetchInterval,
                refreshInterval: identity.keyRefreshInterval,
                logger: logger
            )
        )
    }

    /// The service's own backend.
    private static func backend(
        _ backend: Settings.Identity.Backend,
        _ identity: Settings.Identity,
        _ logger: Logger
    ) throws -> TokenVerifier {
        let keys: TokenVerifier.Keys
        switch backend.keys {
        case .secret(let secret):
            keys = .shared(VerificationKey(secret: secret))
        case .url(let url):
            keys = publishedKeys(url, identity, logger)
        case .file(let path):
            guard let set = FileContents.read(path).flatMap({ KeySet(json: $0) }), !set.isEmpty else {
                throw SettingsError(
                    place: SettingKey.identityJWTKeysFile.rawValue,
                    message:
                        "The file \(path) is no JSON Web Key Set with a key that can be used: RSA or P-256, with a kid."
                )
            }
            keys = .fixed(set)
        }
        return TokenVerifier(
            issuer: backend.issuer,
            audiences: [backend.audience],
            algorithms: backend.isSecret ? [.hs256] : [.rs256, .es256],
            keys: keys
        )
    }

    /// Whether any kind is accepted.
    var isAccepted: Bool { accessTokens != nil || !verifiers.isEmpty }

    /// The user whose token it is; `nil` if it is of no kind that is accepted, or not in force.
    ///
    /// - Parameters:
    ///   - digest: The SHA-256 of `token`.
    ///   - address: Where it comes from.
    ///   - kakao: Of `loop`, as `client` is.
    ///   - loop: The calling one.
    /// - Throws: ``Problem`` 503 when it cannot be found out at the moment.
    func user(
        of token: String,
        _ digest: [UInt8],
        from address: @autoclosure () -> SocketAddress.Network,
        _ kakao: KakaoUserAPI,
        _ client: HTTPClient,
        on loop: EventLoop
    ) async throws -> AuthorizedUser? {
        // Kakao's access tokens are no JSON Web Tokens. One of these is never sent to Kakao: it may be of another issuer.
        guard JSONWebToken.isLike(token) else {
            return try await accessTokens?.user(of: token, digest, from: address(), kakao, on: loop)
        }
        guard !verifiers.isEmpty, let token = JSONWebToken(token, .credential),
            let issuer = token.claims["iss"]?.string
        else {
            return nil
        }
        let now = MonotonicTime.now
        let userID = try await verifiers.first { $0.issuer == issuer }?.user(of: token, client, on: loop)
        return userID.map { AuthorizedUser(id: $0, authorizedAt: now) }
    }

    /// The token's user, if the token was verified lately: no issuer is asked.
    ///
    /// - Parameter digest: The SHA-256 of `token`.
    func rememberedUser(of token: String, _ digest: [UInt8]) -> AuthorizedUser? {
        JSONWebToken.isLike(token) ? nil : accessTokens?.rememberedUser(digest)
    }

    /// Some server has said whose tokens were revoked, or may have said so unheard.
    func receive(_ event: PostgresListener.Event) {
        accessTokens?.receive(event)
    }
}
