internal import EventLoop
internal import HTTPServer
internal import HTTPTypes
internal import KakaoAPI
internal import Locking

/// Whose a Kakao Login access token is, as Kakao says: shared by all loops.
///
/// What Kakao said is remembered under the token's SHA-256, never under the token. A token that Kakao refuses and one that Kakao
/// cannot be asked about are told apart: an app logs its user out for the first, and must not for the second.
final class KakaoAccessTokens: Sendable {
    /// The longest that Kakao's word is taken for: so long a token that was revoked is still let in.
    private static let trust = Duration.seconds(5 * 60)
    /// How long a refusal is remembered: against one who repeats it.
    private static let refusalTime = Duration.seconds(5)
    /// Tokens that are remembered, of users and refused ones each.
    private static let limit = 16_384
    /// Questions to Kakao at a time.
    private static let maximumQuestions = 256
    /// When to come again that Kakao did not answer.
    private static let retrySeconds: Int64 = 5
    /// The longest that Kakao is left alone because a quota is used up.
    private static let longestPause = Duration.seconds(60)

    /// What is known of a token.
    private enum Verdict: Sendable {
        case user(Int64)
        case refused
        /// Kakao could not say, and may be asked again in so many seconds.
        case unknown(retrySeconds: Int64)
    }

    private struct Entry: Sendable {
        /// `nil` for a token that Kakao refused.
        let userID: Int64?
        let end: ContinuousClock.Instant
    }

    private struct State: Sendable {
        var users = RecentlyUsed<TokenDigest, Entry>(limit: KakaoAccessTokens.limit)
        /// Apart from the users', which a flood of bad tokens must not drive out.
        var refused = RecentlyUsed<TokenDigest, Entry>(limit: KakaoAccessTokens.limit)
        /// Until then Kakao is not asked, because a quota is used up.
        var pauseEnd: ContinuousClock.Instant?
    }

    private let appID: Int64
    private let state = Locked(State())
    private let questions = SharedQuestions<TokenDigest, Verdict>(limit: maximumQuestions)

    /// - Parameter appID: The app that a token must be of.
    init(appID: Int64) {
        self.appID = appID
    }

    /// The user whose token it is; `nil` for a token that is not in force, or of another app.
    ///
    /// - Parameters:
    ///   - kakao: Of `loop`.
    ///   - loop: The calling one.
    /// - Throws: ``Problem`` 503 when Kakao cannot say.
    func user(of token: String, _ kakao: KakaoUserAPI, on loop: EventLoop) async throws -> Int64? {
        guard Self.isToken(token) else { return nil }
        let digest = TokenDigest(token)
        var verdict = known(digest)
        if verdict == nil {
            verdict = await questions.answer(to: digest, on: loop) { await self.ask(token, digest, kakao) }
        }
        switch verdict ?? .unknown(retrySeconds: 1) {
        case .user(let userID): return userID
        case .refused: return nil
        case .unknown(let seconds): throw Problem.identityUnavailable(retrySeconds: seconds)
        }
    }

    /// What is remembered of a token.
    private func known(_ digest: TokenDigest) -> Verdict? {
        let now = ContinuousClock.now
        return state.withLock { state in
            if let entry = state.users.value(digest) {
                if entry.end > now, let userID = entry.userID { return .user(userID) }
                state.users.remove(digest)
            }
            if let entry = state.refused.value(digest) {
                if entry.end > now { return .refused }
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
        // It may have been answered in the moment between looking and asking.
        if let verdict = known(digest) { return verdict }
        do throws(KakaoError) {
            let info = try await kakao.accessTokenInfo(token)
            guard info.appID == appID, let userID = info.userID, userID > 0 else { return refuse(digest) }
            let trust = min(.seconds(info.expiresInSeconds), Self.trust)
            state.withLock { $0.users.set(Entry(userID: userID, end: .now + trust), for: digest) }
            return .user(userID)
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
        state.withLock { $0.refused.set(Entry(userID: nil, end: .now + Self.refusalTime), for: digest) }
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

    init(_ token: String) {
        words = SHA256Digest.of(token).withUnsafeBytes { bytes in
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
