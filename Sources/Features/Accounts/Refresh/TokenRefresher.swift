import Crypto
import Endpoints
import EventLoop
import HTTPServer
import KakaoAPI
import Logging
import Postgres
import Runtime

/// The access tokens of accounts on one event loop, refreshed at Kakao before they expire.
///
/// Only one server refreshes the tokens of an account at a time. It holds a lease in the account's row, and no transaction
/// while it calls Kakao. It commits the response before it uses it, because a new refresh token ends the old one.
struct TokenRefresher: Sendable {
    /// The time for which a request waits for a refresh.
    private static let wait = Duration.seconds(15)
    private static let pollInterval = Duration.milliseconds(100)
    /// The age in seconds below which an access token is not refreshed although Kakao rejects it.
    private static let minimumAge = 60.0
    /// The pause after Kakao rejects the app's key or its secret, which only an operator can change.
    private static let configurationPause = Duration.seconds(60)
    /// The pause after a refresh for which the settings lack the encryption key or the app key.
    private static let unreadablePause = Duration.seconds(3600)
    /// The pause after imported tokens could not be verified.
    private static let verificationPause = Duration.seconds(30)
    private static let retryDelay = RetryDelay(first: .seconds(1), longest: .seconds(60))
    /// The delays between attempts to store new tokens.
    private static let storeDelay = RetryDelay(first: .milliseconds(100), longest: .seconds(5))
    /// The number of attempts to store new tokens: for about an hour.
    private static let storeAttempts = 700

    let store: AccountStore
    let vault: TokenVault
    let kakao: KakaoClient
    let app: LoginApp
    let intervals: RefreshIntervals
    let counts: RefreshCounts
    let webhooks: WebhookNotice
    let loop: EventLoop
    let logger: Logger

    /// Returns a valid access token of an account. It is refreshed first if little of its lifetime remains.
    ///
    /// - Parameter rejected: A token that Kakao has just rejected, which is refreshed whatever its lifetime.
    /// - Throws: ``Problem``: 409 if there is no valid token and none can be had, 503 if none can be had now.
    func accessToken(of userID: Int64, replacing rejected: String? = nil) async throws -> AccessToken {
        let deadline = MonotonicTime.now + Self.wait
        var hasRefreshed = false
        while true {
            let stored = try await store.storedTokens(of: userID)
            guard let account = stored, let sealed = account.sealed, account.state == .linked else {
                throw Problem.loginRequired(stored?.reason)
            }
            let token = try open(sealed, of: userID).accessToken
            // Kakao also rejects calls of addresses that it does not allow, which no new token would change.
            let isRejected = token == rejected && account.secondsSinceIssue >= Self.minimumAge
            guard account.isRefreshDue || isRejected || !account.isTrusted else {
                return AccessToken(token, account)
            }
            let isUsable = account.secondsLeft > 0 && !isRejected && account.isTrusted
            guard account.refreshedBy == .server, account.hasRefreshToken else {
                guard isUsable else { throw Problem.refreshedByApp }
                return AccessToken(token, account)
            }
            if account.pauseSeconds > 0 || account.isLeased || hasRefreshed, isUsable {
                // It is refreshed later or by another server, or its whole lifetime is short.
                return AccessToken(token, account)
            }
            guard app.client(account.appKey) != nil else { throw Problem.appKeyMissing(account.appKey) }
            guard account.pauseSeconds <= 0 else { throw Problem.refreshPaused(seconds: account.pauseSeconds) }
            guard !hasRefreshed, MonotonicTime.now < deadline else { throw Problem.refreshPaused(seconds: 1) }
            let latestStart = latestStart
            if !account.isLeased, let claim = try await store.claim(account, for: intervals.lease) {
                // A refresh that has begun ends even if its client has gone: its response must not be lost.
                let refreshing = Task(executorPreference: loop) { await refresh(claim, startingBefore: latestStart) }
                guard try await loop.run(within: deadline - .now, { await refreshing.value }) != nil else {
                    throw Problem.refreshPaused(seconds: 1)
                }
                hasRefreshed = true
            } else {
                try await loop.sleep(for: Self.pollInterval)
            }
        }
    }

    private func open(_ sealed: TokenVault.Sealed, of userID: Int64) throws -> AccountTokens {
        do throws(UnreadableTokens) {
            return try vault.open(sealed, of: userID)
        } catch {
            logger.error("Tokens unreadable", metadata: ["user_id": "\(userID)", "error": "\(error)"])
            throw Problem.unreadableTokens
        }
    }

    /// The latest start of a call to Kakao under a lease that is requested now, in milliseconds of the loop's clock. The
    /// time is that of the request: the process may be stopped, or the database slow, before the server has the lease.
    var latestStart: UInt64 { EventLoop.milliseconds() + intervals.startLimit.wholeMilliseconds }

    /// Refreshes the tokens of an account that was claimed, and stores the result.
    ///
    /// - Parameter latestStart: The value of ``latestStart`` before the claim.
    func refresh(_ claim: RefreshClaim, startingBefore latestStart: UInt64) async {
        let tokens: AccountTokens
        do throws(UnreadableTokens) {
            tokens = try vault.open(claim.sealed, of: claim.userID)
        } catch {
            logger.error("Tokens unreadable", metadata: ["user_id": "\(claim.userID)", "error": "\(error)"])
            return await postpone(claim, for: Self.unreadablePause, .misconfigured)
        }
        guard let refreshToken = tokens.refreshToken, let client = app.client(claim.appKey) else {
            logger.error(
                "Tokens not refreshed: the app key of the account is not set",
                metadata: ["user_id": "\(claim.userID)", "app_key": "\(claim.appKey)"]
            )
            return await postpone(claim, for: Self.unreadablePause, .misconfigured)
        }
        let start = MonotonicTime.now
        do throws(KakaoError) {
            let answer = try await kakao.call(
                RequestToken.refreshing(refreshToken, for: client),
                as: .none,
                startingBefore: latestStart,
                timeout: intervals.callTimeout
            )
            let issued = IssuedTokens(answer, keeping: refreshToken, since: start)
            await storeTokens(issued, claim, usedSHA256: SHA256Digest.of(refreshToken))
            if !claim.isVerified { await verify(issued, claim) }
        } catch {
            await handle(error, claim, usedSHA256: SHA256Digest.of(refreshToken))
        }
    }

    /// Checks that the tokens from an imported refresh token are the user's. Until Kakao has confirmed it, no caller gets the
    /// access token.
    private func verify(_ issued: IssuedTokens, _ claim: RefreshClaim) async {
        let info = try? await kakao.holder(of: issued.tokens.accessToken, in: nil)
        let sha256 = SHA256Digest.of(issued.tokens.refreshToken ?? "")
        do {
            switch (info?.userID).map({ $0 == claim.userID }) {
            case true?: try await store.pool.write(VerifyAccount(userID: claim.userID, refreshTokenSHA256: sha256))
            case false?:
                logger.warning(
                    "Login required: the imported refresh token is another user's",
                    metadata: ["user_id": "\(claim.userID)"]
                )
                await reject(claim, usedSHA256: sha256)
            case nil: try await store.pool.write(ExpireAccessToken(userID: claim.userID, pause: Self.verificationPause))
            }
        } catch {
            logger.warning(
                "Imported tokens not verified",
                metadata: ["user_id": "\(claim.userID)", "error": "\(error)"]
            )
        }
    }

    /// Stores new tokens. They may be the only ones that Kakao accepts, so this is tried for about an hour before they count
    /// as lost.
    private func storeTokens(_ issued: IssuedTokens, _ claim: RefreshClaim, usedSHA256: [UInt8]) async {
        let sealed = vault.seal(issued.tokens, of: claim.userID)
        let start = MonotonicTime.now
        for attempt in 1...Self.storeAttempts {
            do {
                let statement = StoreRefresh(
                    claim: claim,
                    usedSHA256: usedSHA256,
                    issued: issued.after(MonotonicTime.now - start),
                    sealed: sealed
                )
                let isStored = try await store.pool.write(statement).first != nil
                // Otherwise the user has logged out or in again meanwhile.
                counts.count(isStored ? .refreshed : .superseded)
                return
            } catch {
                logger.warning(
                    "New tokens not stored",
                    metadata: ["user_id": "\(claim.userID)", "error": "\(error)", "attempt": "\(attempt)"]
                )
                try? await loop.sleep(for: Self.storeDelay.after(attempt))
            }
        }
        counts.count(.lost)
    }

    private func handle(_ error: KakaoError, _ claim: RefreshClaim, usedSHA256: [UInt8]) async {
        switch error.disposition {
        case .logIn:
            logger.info("Login required: Kakao rejected the refresh token", metadata: ["user_id": "\(claim.userID)"])
            await reject(claim, usedSHA256: usedSHA256)
        case .wait:
            await postpone(claim, for: max(intervals.quotaPause, error.retryAfter ?? .zero), .limited)
        case .halt, .consent, .invalid, .fail:
            logger.critical(
                "Token refresh rejected: check the app's keys and the client secret",
                metadata: ["user_id": "\(claim.userID)", "app_key": "\(claim.appKey)", "kakao": "\(error)"]
            )
            await postpone(claim, for: Self.configurationPause, .misconfigured)
        case .retry, .unrecognized:
            logger.debug("Token refresh failed", metadata: ["user_id": "\(claim.userID)", "kakao": "\(error)"])
            let delay = Self.retryDelay.after(claim.attempts + 1, atLeast: error.retryAfter ?? .zero)
            await postpone(claim, for: delay, .failed)
        }
    }

    private func reject(_ claim: RefreshClaim, usedSHA256: [UInt8]) async {
        do {
            try await store.pool.write(RejectRefresh(claim: claim, usedSHA256: usedSHA256))
            webhooks.send()
            counts.count(.rejected)
        } catch {
            // The lease ends by itself, and Kakao rejects the token again.
            counts.count(.failed)
        }
    }

    private func postpone(_ claim: RefreshClaim, for pause: Duration, _ outcome: RefreshOutcome) async {
        counts.count(outcome)
        // If this fails, the lease ends by itself.
        _ = try? await store.pool.write(PostponeRefresh(claim: claim, pause: pause)) as Int
    }
}

extension IssuedTokens {
    /// The lifetime of Kakao's refresh tokens in seconds, if it is not said: two months.
    static let refreshTokenLifetime: Int64 = 5_184_000

    /// Creates the tokens of Kakao's response, whose lifetimes began at the latest when it was requested.
    ///
    /// - Parameter refreshToken: The refresh token that stays valid if Kakao has issued no other.
    init(_ answer: RequestToken.Answer, keeping refreshToken: String?, since start: MonotonicTime) {
        let elapsed = (MonotonicTime.now - start).inSeconds
        self.init(
            tokens: AccountTokens(
                accessToken: answer.accessToken,
                refreshToken: answer.refreshToken ?? refreshToken
            ),
            accessTokenLifetime: Double(answer.expiresInSeconds) - elapsed,
            refreshTokenLifetime: answer.refreshToken == nil
                ? nil : Double(answer.refreshTokenExpiresInSeconds ?? Self.refreshTokenLifetime) - elapsed,
            scopes: answer.scopes
        )
    }
}
