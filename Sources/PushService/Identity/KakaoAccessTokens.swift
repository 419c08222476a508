internal import EventLoop
internal import HTTPServer
internal import HTTPTypes
internal import KakaoAPI
internal import Locking
internal import Postgres

/// Whose a Kakao Login access token is, as Kakao says: shared by all loops.
///
/// What Kakao said is remembered under the token's SHA-256, never under the token. A token that Kakao refuses and one that Kakao
/// cannot be asked about are told apart: an app logs its user out for the first, and must not for the second.
///
/// When a user's tokens are revoked, whichever server Kakao has told, what Kakao said of them before counts no more.
final class KakaoAccessTokens: Sendable {
    /// What servers tell each other on: the number of a user whose tokens were revoked.
    static let channel = "kakao_push_revoked_users"

    /// The longest that Kakao's word is taken for: so long a token that was revoked is still let in, unless Kakao tells.
    private static let trust = Duration.seconds(5 * 60)
    /// How long a refusal is remembered: against one who repeats it.
    private static let refusalTime = Duration.seconds(5)
    /// Tokens that are remembered, of users and refused ones each; and users whose tokens were revoked.
    private static let limit = 16_384
    /// Questions to Kakao at a time, with those that wait for their turn.
    private static let maximumQuestions = 1024
    /// When to come again that Kakao did not answer.
    private static let retrySeconds: Int64 = 5
    /// The longest that Kakao is left alone because a quota is used up.
    private static let longestPause = Duration.seconds(60)

    /// What is known of a token.
    private enum Verdict: Sendable {
        case user(AuthorizedUser)
        case refused
        /// Kakao could not say, and may be asked again in so many seconds.
        case unknown(retrySeconds: Int64)
    }

    private struct Entry: Sendable {
        let userID: Int64
        /// When Kakao was asked.
        let asked: MonotonicTime
        let end: MonotonicTime
    }

    private struct State: Sendable {
        var users = LRUCache<TokenDigest, Entry>(limit: KakaoAccessTokens.limit)
        /// Until when a refusal is remembered. Apart from the users', which a flood of bad tokens must not drive out.
        var refused = LRUCache<TokenDigest, MonotonicTime>(limit: KakaoAccessTokens.limit)
        /// When these users' tokens were revoked.
        var revoked: [Int64: MonotonicTime] = [:]
        /// When anybody's may have been.
        var allRevoked = MonotonicTime.now
        /// Until then Kakao is not asked, because a quota is used up.
        var pauseEnd: MonotonicTime?

        /// Whether none of a user's tokens was revoked since Kakao was asked about one.
        func holds(for userID: Int64, since asked: MonotonicTime) -> Bool {
            allRevoked < asked && revoked[userID].map { $0 < asked } ?? true
        }

        mutating func revokeAll() {
            users = LRUCache(limit: KakaoAccessTokens.limit)
            revoked = [:]
            allRevoked = .now
        }
    }

    private let appID: Int64
    private let state = Locked(State())
    private let questions = SingleFlight<TokenDigest, Verdict>(limit: maximumQuestions)
    private let pace = VerificationPace()

    /// - Parameter appID: The app that a token must be of.
    init(appID: Int64) {
        self.appID = appID
    }

    /// The user whose token it is; `nil` for a token that is not in force, or of another app.
    ///
    /// - Parameters:
    ///   - digest: The SHA-256 of `token`.
    ///   - address: Where it comes from: see ``VerificationPace``.
    ///   - kakao: Of `loop`.
    ///   - loop: The calling one.
    /// - Throws: ``Problem`` 503 when Kakao cannot say, or is asked too often.
    func user(
        of token: String,
        _ digest: [UInt8],
        from address: @autoclosure () -> SocketAddress.Network,
        _ kakao: KakaoUserAPI,
        on loop: EventLoop
    ) async throws -> AuthorizedUser? {
        guard Self.isToken(token) else { return nil }
        let digest = TokenDigest(digest)
        var verdict = known(digest)
        if verdict == nil {
            let address = address()
            verdict = await questions.answer(to: digest, on: loop) {
                // It may have been answered in the moment between looking and asking.
                if let verdict = self.known(digest) { return verdict }
                guard await self.pace.begin(address, on: loop) else {
                    return .unknown(retrySeconds: VerificationPace.retrySeconds)
                }
                let verdict = await self.ask(token, digest, kakao)
                if case .refused = verdict {
                    self.pace.end(address, isRejected: true)
                } else {
                    self.pace.end(address, isRejected: false)
                }
                return verdict
            }
        }
        switch verdict ?? .unknown(retrySeconds: 1) {
        case .user(let user): return user
        case .refused: return nil
        case .unknown(let seconds): throw Problem.identityUnavailable(retrySeconds: seconds)
        }
    }

    /// The user whose token has this SHA-256, if Kakao has said so lately.
    func rememberedUser(_ digest: [UInt8]) -> AuthorizedUser? {
        guard case .user(let user) = known(TokenDigest(digest)) else { return nil }
        return user
    }

    /// Some server has said whose tokens were revoked, or may have said so unheard.
    func receive(_ event: PostgresListener.Event) {
        switch event {
        case .listening:
            state.withLock { $0.revokeAll() }
        case .notification(channel: Self.channel, let payload):
            guard let userID = Int64(decimal: payload) else { return }
            state.withLock { state in
                if state.revoked.count >= Self.limit { state.revokeAll() }
                state.revoked[userID] = .now
            }
        case .notification:
            break
        }
    }

    /// What is remembered of a token.
    private func known(_ digest: TokenDigest) -> Verdict? {
        let now = MonotonicTime.now
        return state.withLock { state in
            if let entry = state.users.value(digest) {
                if entry.end > now, state.holds(for: entry.userID, since: entry.asked) {
                    return .user(AuthorizedUser(id: entry.userID, authorizedAt: entry.asked))
                }
                state.users.remove(digest)
            }
            if let end = state.refused.value(digest) {
                if end > now { return .refused }
                state.refused.remove(digest)
            }
            if let end = state.pauseEnd, end > now {
                return .unknown(retrySeconds: max(1, (end - now).components.seconds + 1))
            }
            return nil
        }
    }

    /// Asks Kakao, and remembers what it said.
    private func ask(_ token: String, _ digest: TokenDigest, _ kakao: KakaoUserAPI) async -> Verdict {
        // Kakao's quota may have been used up while it waited for its turn.
        if let verdict = known(digest) { return verdict }
        let asked = MonotonicTime.now
        do throws(KakaoError) {
            let info = try await kakao.accessTokenInfo(token)
            guard info.appID == appID, let userID = info.userID, userID > 0 else { return refuse(digest) }
            let trust = min(.seconds(info.expiresInSeconds), Self.trust)
            return state.withLock { state in
                // Revoked while Kakao was asked: nobody knows which came first. The next one who comes asks again.
                guard state.holds(for: userID, since: asked) else { return .unknown(retrySeconds: 1) }
                state.users.set(Entry(userID: userID, asked: asked, end: .now + trust), for: digest)
                return .user(AuthorizedUser(id: userID, authorizedAt: asked))
            }
        } catch {
            if error.refusesToken { return refuse(digest) }
            if error.disposition == .wait {
                let pause = min(error.retryAfter ?? .seconds(Self.retrySeconds), Self.longestPause)
                state.withLock { $0.pauseEnd = .now + pause }
                return .unknown(retrySeconds: max(1, pause.components.seconds))
            }
            return .unknown(retrySeconds: max(1, error.retryAfter?.components.seconds ?? Self.retrySeconds))
        }
    }

    private func refuse(_ digest: TokenDigest) -> Verdict {
        state.withLock { $0.refused.set(.now + Self.refusalTime, for: digest) }
        return .refused
    }

    /// Whether it may be sent as a bearer token (RFC 6750 §2.1), and is no longer than one may be expected to be.
    static func isToken(_ token: String) -> Bool {
        (1...2048).contains(token.utf8.count)
            && token.utf8.allSatisfy { octet in
                switch octet {
                case 0x30...0x39, 0x41...0x5A, 0x61...0x7A: true
                case UInt8(ascii: "-"), UInt8(ascii: "."), UInt8(ascii: "_"), UInt8(ascii: "~"), UInt8(ascii: "+"),
                    UInt8(ascii: "/"), UInt8(ascii: "="):
                    true
                default: false
                }
            }
    }
}

/// The SHA-256 of a token: what stands for it in memory.
private struct TokenDigest: Hashable, Sendable {
    private let words: (UInt64, UInt64, UInt64, UInt64)

    init(_ digest: [UInt8]) {
        words = digest.withUnsafeBytes { bytes in
            (
                bytes.loadUnaligned(as: UInt64.self), bytes.loadUnaligned(fromByteOffset: 8, as: UInt64.self),
                bytes.loadUnaligned(fromByteOffset: 16, as: UInt64.self),
                bytes.loadUnaligned(fromByteOffset: 24, as: UInt64.self)
            )
        }
    }

    static func == (left: TokenDigest, right: TokenDigest) -> Bool { left.words == right.words }

    func hash(into hasher: inout Hasher) {
        hasher.combine(words.0)
        hasher.combine(words.1)
    }
}

extension KakaoError {
    /// Whether Kakao's explicit word is that the access token is not in force, or is none. A gateway's 401 is not that.
    fileprivate var refusesToken: Bool {
        guard case .refused(_, let code, _) = kind else { return false }
        return code == .invalidCredential || code == .invalidParameter
    }
}

extension Problem {
    /// Who calls cannot be found out at the moment. Never 401: an app would log its user out.
    static func identityUnavailable(retrySeconds: Int64) -> Problem {
        Problem(
            .serviceUnavailable,
            kind: "identity-unavailable",
            "Whether the token is in force cannot be found out at the moment. Try again.",
            headerFields: [.retryAfter: String(retrySeconds)]
        )
    }
}
