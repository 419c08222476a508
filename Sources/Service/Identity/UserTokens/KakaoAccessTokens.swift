import Endpoints
import EventLoop
package import HTTPServer
import HTTPTypes
import KakaoAPI
import Locking
import Net
import Postgres
import Runtime
import Schemas

/// A cache of Kakao Login access tokens and their users, as verified by Kakao. Shared by all event loops.
///
/// A result is cached under the token's SHA-256, never under the token. A token that Kakao rejects is distinguished
/// from one that cannot be verified now: an app logs its user out for the first, and must not for the second.
///
/// When a user's tokens are revoked, earlier results for them become invalid on all servers, whichever server Kakao
/// notified.
package final class KakaoAccessTokens: Sendable {
    /// The notification channel between servers. The payload is the id of a user whose tokens were revoked.
    package static let channel = "kakao_push_revoked_users"

    /// How long a valid token is cached at most. A revoked token is accepted for that long unless Kakao reports the
    /// revocation.
    private static let trust = Duration.seconds(5 * 60)
    /// How long a rejection is cached, against clients that repeat a bad token.
    private static let refusalTime = Duration.seconds(5)
    /// The maximum number of cached valid tokens, of cached rejected tokens, and of remembered users with revoked
    /// tokens.
    private static let maximumEntries = 16_384
    /// The maximum number of concurrent verifications, including those that wait for their turn.
    private static let maximumVerifications = 4096
    /// The delay in seconds before a retry if Kakao did not respond.
    private static let retrySeconds: Int64 = 5

    /// The result of verifying a token.
    private enum Verdict: Sendable {
        case user(AuthorizedUser)
        /// The token is valid, and its user has no id, as was so when Kakao was asked. It is not cached: the user is about to
        /// sign up.
        case unlinked(asked: MonotonicTime)
        case refused(CredentialRejection)
        /// Too many unknown tokens wait for their verification.
        case noTurn
        /// The token could not be verified. A retry is possible after `retrySeconds`.
        case unknown(retrySeconds: Int64)
    }

    private struct Entry: Sendable {
        let userID: Int64
        /// When the call to Kakao began.
        let asked: MonotonicTime
        let end: MonotonicTime
    }

    private struct State: Sendable {
        var users = LRUCache<TokenDigest, Entry>(limit: KakaoAccessTokens.maximumEntries)
        /// The rejections, and when each expires. Separate from `users`, so that a flood of bad tokens does not evict the
        /// valid ones.
        var refused = LRUCache<TokenDigest, (reason: CredentialRejection, end: MonotonicTime)>(
            limit: KakaoAccessTokens.maximumEntries
        )
        /// When the tokens of these users were revoked.
        var revoked: [Int64: MonotonicTime] = [:]
        /// The last time at which tokens of any user may have been revoked unnoticed.
        var allRevoked = MonotonicTime.now

        /// Returns whether none of a user's tokens was revoked since Kakao was asked about one.
        func holds(for userID: Int64, since asked: MonotonicTime) -> Bool {
            allRevoked < asked && revoked[userID].map { $0 < asked } ?? true
        }

        mutating func revokeAll() {
            users = LRUCache(limit: KakaoAccessTokens.maximumEntries)
            revoked = [:]
            allRevoked = .now
        }
    }

    private let appID: Int64
    private let state = Locked(State())
    private let verifications = SingleFlight<TokenDigest, Verdict>(limit: maximumVerifications)
    private let pace: RejectionPace

    /// The limits of tokens that Kakao rejects.
    private static let limits = RejectionPace.Limits(
        network: RejectionPace.Rate(rejections: 20, inFlight: 32, interval: .milliseconds(500)),
        server: RejectionPace.Rate(rejections: 1000, inFlight: 1000, interval: .milliseconds(50)),
        // A phone waits with its token.
        longestWait: .seconds(2)
    )

    /// - Parameters:
    ///   - appID: The app that tokens must belong to.
    ///   - connections: The number of connections of each event loop that the verifications have.
    init(appID: Int64, connections: Int) {
        self.appID = appID
        pace = RejectionPace(Self.limits, connections: connections)
    }

    /// Returns the user of a token, or the reason why it is rejected: it is invalid, expired or of another app.
    ///
    /// - Parameters:
    ///   - digest: The SHA-256 of `token`.
    ///   - network: The network of the caller; `nil` for a token that was verified before: see ``RejectionPace``.
    ///   - isBackend: Whether the caller is a backend of the service.
    ///   - kakao: The API client of `loop`.
    ///   - loop: The caller's event loop.
    /// - Throws: ``Problem`` 503 when Kakao cannot verify the token now, 429 when too many unknown tokens are sent.
    func holder(
        of token: String,
        _ digest: TokenDigest,
        from network: SocketAddress.Network?,
        isBackend: Bool,
        _ kakao: KakaoClient,
        on loop: EventLoop
    ) async throws -> Result<TokenHolder, CredentialRejection> {
        guard Self.isToken(token) else { return .failure(.malformedToken) }
        let arrival = MonotonicTime.now
        var verdict = known(digest)
        while verdict == nil {
            let answer = await verifications.answer(to: digest, on: loop) {
                // An earlier call may have ended between the look-up and this call.
                if let verdict = self.known(digest) { return verdict }
                switch await self.pace.acquire(network, isBackend: isBackend, on: loop) {
                case .none: return .noTurn
                case .paused(let pause): return .unknown(retrySeconds: pause.components.seconds + 1)
                case .granted: break
                }
                let verdict = await self.verify(token, digest, kakao)
                let isRejected = if case .refused = verdict { true } else { false }
                self.pace.release(network, isBackend: isBackend, isRejected: isRejected, on: loop)
                return verdict
            }
            // That look-up began before this request arrived, and the user may have signed up since. The next one begins later.
            if case .unlinked(let asked) = answer, asked < arrival { continue }
            verdict = answer ?? .noTurn
        }
        switch verdict ?? .noTurn {
        case .user(let user): return .success(.user(user))
        case .unlinked: return .success(.unlinked)
        case .refused(let reason): return .failure(reason)
        case .noTurn:
            throw Problem.tooManyRequests("Too many unknown tokens are being verified.", wait: Self.limits.longestWait)
        case .unknown(let seconds): throw Problem.identityUnavailable(retrySeconds: seconds)
        }
    }

    /// Returns the user of the token with this SHA-256, if it is cached.
    func cachedUser(_ digest: TokenDigest) -> AuthorizedUser? {
        guard case .user(let user) = known(digest) else { return nil }
        return user
    }

    /// Invalidates the user that a notification names; all users on (re)connection, when notifications may have been
    /// lost.
    func receive(_ event: PostgresListener.Event) {
        switch event {
        case .listening:
            state.withLock { $0.revokeAll() }
        case .notification(channel: Self.channel, let payload):
            guard let userID = Int64(decimal: payload) else { return }
            state.withLock { state in
                if state.revoked.count >= Self.maximumEntries { state.revokeAll() }
                state.revoked[userID] = .now
            }
        case .notification:
            break
        }
    }

    /// Returns the cached result for a token.
    private func known(_ digest: TokenDigest) -> Verdict? {
        let now = MonotonicTime.now
        return state.withLock { state in
            if let entry = state.users.value(digest) {
                if entry.end > now, state.holds(for: entry.userID, since: entry.asked) {
                    return .user(AuthorizedUser(id: entry.userID, authorizedAt: entry.asked))
                }
                state.users.remove(digest)
            }
            if let refusal = state.refused.value(digest) {
                if refusal.end > now { return .refused(refusal.reason) }
                state.refused.remove(digest)
            }
            return nil
        }
    }

    /// Verifies a token with Kakao, and caches the result.
    private func verify(_ token: String, _ digest: TokenDigest, _ kakao: KakaoClient) async -> Verdict {
        let asked = MonotonicTime.now
        do throws(KakaoError) {
            let info = try await kakao.holder(of: token, in: appID)
            guard info.appID == appID else { return refuse(digest, .anotherApp) }
            guard let userID = info.userID else { return .unlinked(asked: asked) }
            let trust = min(.seconds(info.expiresInSeconds), Self.trust)
            return state.withLock { state in
                // The token was revoked during the call, in unknown order. The next request asks Kakao again.
                guard state.holds(for: userID, since: asked) else { return .unknown(retrySeconds: 1) }
                state.users.set(Entry(userID: userID, asked: asked, end: .now + trust), for: digest)
                return .user(AuthorizedUser(id: userID, authorizedAt: asked))
            }
        } catch {
            if let reason = error.tokenRejection { return refuse(digest, reason) }
            let delay = pace.pause(after: error) ?? error.retryAfter
            return .unknown(retrySeconds: max(1, delay?.components.seconds ?? Self.retrySeconds))
        }
    }

    private func refuse(_ digest: TokenDigest, _ reason: CredentialRejection) -> Verdict {
        state.withLock { $0.refused.set((reason, .now + Self.refusalTime), for: digest) }
        return .refused(reason)
    }

    /// Returns whether a text can be sent as a bearer token (RFC 6750 §2.1) and has a plausible length.
    package static func isToken(_ token: String) -> Bool {
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

extension Problem {
    /// The problem of a caller that cannot be identified now. It is never 401, for which an app would log its user out.
    package static func identityUnavailable(retrySeconds: Int64) -> Problem {
        Problem(
            of: .identityUnavailable,
            "The token cannot be verified now. Try again.",
            headerFields: [.retryAfter: String(retrySeconds)]
        )
    }
}
