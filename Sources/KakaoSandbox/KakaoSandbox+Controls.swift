package import JSON

/// The controls of `/sandbox/*`, for tests that have the sandbox in their own process.
extension KakaoSandbox {
    /// The oldest deliveries after a sequence, to one user or to all, at most `limit`.
    package func deliveries(to userID: Int64? = nil, after sequence: Int = 0, limit: Int = 10_000) -> [Delivery] {
        ledger.deliveries(to: userID, after: sequence, limit: limit)
    }

    /// Forgets what was delivered to whom, and keeps the tokens.
    package func forgetDeliveries() {
        ledger.forgetDeliveries()
    }

    /// What is known of the sends with a marker in their `custom_field`; of those without one for the empty marker.
    package func reached(marker: String) -> ReachSummary {
        ledger.reachSummary(of: marker)
    }

    /// How often a user was named by accepted sends of a marker.
    package func timesReached(_ userID: Int64, marker: String) -> Int {
        ledger.timesReached(userID, marker: marker)
    }

    /// Has sends to a token fail from now on. Ignored when 100,000 tokens fail already.
    package func failToken(_ pushToken: String) {
        _ = ledger.failToken(pushToken)
    }

    /// Has no token fail any more.
    package func healTokens() {
        ledger.healTokens()
    }

    /// Switches a fault on.
    ///
    /// - Returns: Its id, or `nil` when 100 faults are switched on already.
    @discardableResult
    package func add(_ fault: Fault) -> Int? {
        faults.add(fault)
    }

    /// How many requests a fault has befallen; `nil` if there is none of that id.
    package func timesApplied(_ id: Int) -> Int? {
        faults.faults.first { $0.id == id }?.applied
    }

    /// Switches a fault off, if there is one of that id.
    package func removeFault(_ id: Int) {
        _ = faults.remove(id)
    }

    /// Switches all faults off.
    package func removeFaults() {
        faults.removeAll()
    }

    /// Says where Link callbacks go to, when that was not yet known at the start: the push server's base URL.
    package func sendCallbacks(to url: String) {
        link.setBaseURL(url)
    }

    /// Shares a message: calls the push server once, if Kakao would, and tells what came of it.
    package func share(_ share: LinkShare) async -> LinkShareOutcome {
        await link.share(share)
    }

    /// Has a user unlink the app: calls the push server once, and tells what came of it.
    package func unlink(_ notice: UnlinkNotice) async -> UnlinkOutcome {
        await unlink.send(notice, baseURL: link.baseURL)
    }

    /// Has a user's account change: calls the push server once, and tells what came of it.
    ///
    /// - Throws: `Problem` when no key can be made.
    package func send(_ event: AccountEvent) async throws -> AccountEventOutcome {
        try await accountEvents.send(event, baseURL: link.baseURL)
    }

    /// The security event token that tells of an event, which nobody is called with.
    ///
    /// - Parameters:
    ///   - claims: Put over those that Kakao's have.
    ///   - namesKey: Whether it has `kid`, as Kakao's do.
    /// - Throws: `Problem` when no key can be made.
    package func token(
        of event: AccountEvent,
        claims: JSONObject = JSONObject(),
        namesKey: Bool = true
    ) async throws -> String {
        try await accountEvents.token(event, claims: claims, namesKey: namesKey)
    }

    /// Puts Kakao's clock forward, by which tokens expire: 100 years over all at most.
    package func moveClock(by duration: Duration) {
        ledger.moveClock(bySeconds: duration.components.seconds)
    }

    /// Logs a user in to an app: issues an access token of Kakao Login.
    ///
    /// - Parameters:
    ///   - appID: The sandbox's own app, unless another is given.
    ///   - seconds: How long it is in force.
    /// - Returns: `nil` when 1,000,000 tokens have been issued.
    package func accessToken(of userID: Int64, appID: Int64? = nil, expiresInSeconds seconds: Int64 = 21_599) -> String?
    {
        loginControl.accessToken(of: userID, appID: appID, expiresInSeconds: seconds)
    }

    /// Logs a user in: issues an ID token (OIDC), signed with RS256, of which ``url`` is the issuer.
    ///
    /// - Parameters:
    ///   - appKey: The app's key that the user logged in with: who the token is for.
    ///   - seconds: How long it is in force.
    ///   - claims: Put over those that Kakao's have.
    ///   - namesKey: Whether it has `kid`, as Kakao's do.
    /// - Throws: `Problem` when no key can be made.
    package func idToken(
        of userID: Int64,
        appKey: String,
        expiresInSeconds seconds: Int64 = 21_599,
        claims: JSONObject = JSONObject(),
        namesKey: Bool = true
    ) async throws -> String {
        try await loginControl.idToken(
            of: userID,
            appKey: appKey,
            expiresInSeconds: seconds,
            claims: claims,
            namesKey: namesKey
        )
    }

    /// The keys that are published at the moment, as `/.well-known/jwks.json` has them.
    ///
    /// - Throws: `Problem` when no key can be made.
    package func publishedKeys() async throws -> JSONValue {
        try JSONValue(parsing: await signingKeys.jwks())
    }

    /// Signs ID tokens and account events with a new key from now on. Of the older ones the last stays published.
    package func rotateKeys() async throws {
        try await signingKeys.rotate()
    }

    /// Ends all access tokens of a user.
    package func revokeAccessTokens(of userID: Int64) {
        accessTokens.revoke(userID: userID)
    }

    /// What the sandbox has seen.
    package var stats: SandboxStats {
        SandboxStats(ledger, faults, link, feedback)
    }
}

extension SandboxStats {
    init(_ ledger: Ledger, _ faults: FaultBoard, _ link: LinkCallback, _ feedback: FailureFeedback) {
        let counts = ledger.counts()
        self.init(
            requests: faults.requests,
            sends: counts.sends,
            users: counts.users,
            deliveries: counts.deliveries,
            tokens: counts.tokens,
            failingTokens: counts.failingTokens,
            uncounted: counts.uncounted,
            feedback: feedback.counts,
            linkCallbacks: link.counts,
            seed: faults.seed
        )
    }
}
