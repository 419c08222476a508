package import JSON
package import KakaoAPI

/// The controls of `/sandbox/*`, for tests that run the sandbox in their own process.
extension KakaoSandbox {
    /// Returns the oldest deliveries after a sequence number, to one user or to all users, at most `limit`.
    package func deliveries(to userID: Int64? = nil, after sequence: Int = 0, limit: Int = 10_000) -> [Delivery] {
        ledger.deliveries(to: userID, after: sequence, limit: limit)
    }

    /// Clears the deliveries and their counts. Tokens are kept.
    package func deleteDeliveries() {
        ledger.deleteDeliveries()
    }

    /// Returns the oldest webhooks after a sequence number, at most `limit`.
    package func webhooks(after sequence: Int = 0, limit: Int = 100_000) -> [ReceivedWebhook] {
        webhooks.webhooks(after: sequence, limit: limit)
    }

    /// Clears the webhooks that were received.
    package func deleteWebhooks() {
        webhooks.deleteWebhooks()
    }

    /// Returns the counts of the sends with a marker in their `custom_field`. The empty marker stands for sends without
    /// one.
    package func reached(marker: String) -> ReachSummary {
        ledger.reachSummary(of: marker)
    }

    /// Returns how often accepted sends with a marker named a user.
    package func timesReached(_ userID: Int64, marker: String) -> Int {
        ledger.timesReached(userID, marker: marker)
    }

    /// The images that were uploaded and not deleted, the oldest first.
    package var uploadedImages: [SharedImage] { imageUploads.images }

    /// The number of uploads of images that were accepted, also of those that were deleted since.
    package var imageUploadCount: Int { imageUploads.count }

    /// Makes all further sends to a token fail. Ignored if 100,000 tokens are set to fail already.
    package func failToken(_ pushToken: String) {
        _ = ledger.failToken(pushToken)
    }

    /// Adds a fault.
    ///
    /// - Returns: Its id, or `nil` if 100 faults are active already.
    @discardableResult
    package func add(_ fault: Fault) -> Int? {
        faults.add(fault)
    }

    /// Returns the number of requests that a fault has affected; `nil` if there is no fault with that id.
    package func timesApplied(_ id: Int) -> Int? {
        faults.faults.first { $0.id == id }?.applied
    }

    /// Removes a fault, if it exists.
    package func removeFault(_ id: Int) {
        _ = faults.remove(id)
    }

    /// Removes all faults.
    package func removeFaults() {
        faults.removeAll()
    }

    /// Ends the delays of all responses that a fault delays now.
    package func skipDelays() {
        delays.skip()
    }

    /// Sets the push server's base URL for callbacks, which may be unknown when the sandbox is created.
    package func sendCallbacks(to url: String) {
        callbacks.setBaseURL(url)
    }

    /// Returns the share that an address describes which opens KakaoTalk's friend picker.
    ///
    /// - Throws: `Problem` that says what Kakao would refuse.
    package func linkShare(at address: String) throws -> LinkShare {
        try LinkShare(address: address, settings)
    }

    /// Shares a message: calls the push server ``LinkShare/times`` times, if Kakao would, and returns the last outcome.
    package func share(_ share: LinkShare) async -> CallbackOutcome {
        await link.share(share)
    }

    /// Simulates a user who unlinks the app: calls the push server once, and returns the outcome.
    package func unlink(_ notice: UnlinkNotice) async -> CallbackOutcome {
        await unlink.send(notice)
    }

    /// Simulates a person who adds or blocks a channel: calls the push server once, and returns the outcome.
    package func send(_ event: ChannelEvent) async -> CallbackOutcome {
        await channelEvents.send(event)
    }

    /// Simulates a change of a user's account: calls the push server once, and returns the outcome.
    ///
    /// - Throws: `Problem` if no key can be generated.
    package func send(_ event: AccountEvent) async throws -> CallbackOutcome {
        try await accountEvents.send(event)
    }

    /// Returns the security event token of an event, without a call to the push server.
    ///
    /// - Parameters:
    ///   - claims: Claims that are added to Kakao's, or replace them.
    ///   - namesKey: Whether the token has `kid`, as Kakao's tokens do.
    /// - Throws: `Problem` if no key can be generated.
    package func token(
        of event: AccountEvent,
        claims: JSONObject = JSONObject(),
        namesKey: Bool = true
    ) async throws -> String {
        try await accountEvents.token(event, claims: claims, namesKey: namesKey)
    }

    /// Advances Kakao's clock, by which push tokens expire and quotas of messages are reset, by at most 100 years in
    /// total.
    package func moveClock(by duration: Duration) {
        ledger.moveClock(bySeconds: duration.components.seconds)
    }

    /// Logs a user in to an app by issuing an access token of Kakao Login.
    ///
    /// - Parameters:
    ///   - appID: The sandbox's own app, unless another is given.
    ///   - seconds: The lifetime of the token in seconds.
    /// - Returns: The token, or `nil` if 1,000,000 tokens are stored already.
    package func accessToken(of userID: Int64, appID: Int64? = nil, expiresInSeconds seconds: Int64 = 21_599) -> String?
    {
        loginControl.accessToken(of: userID, appID: appID, expiresInSeconds: seconds)
    }

    /// Logs a user in by issuing an ID token (OIDC), signed with RS256. Its issuer is ``url``.
    ///
    /// - Parameters:
    ///   - appKey: The app key that the user logged in with, which becomes the `aud` claim.
    ///   - seconds: The lifetime of the token in seconds.
    ///   - claims: Claims that are added to Kakao's, or replace them.
    ///   - namesKey: Whether the token has `kid`, as Kakao's tokens do.
    /// - Throws: `Problem` if no key can be generated.
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

    /// Sets what Kakao knows of a user: the body of `POST /sandbox/users/{user_id}`.
    ///
    /// - Throws: `Problem` that names the field.
    package func setUser(_ userID: Int64, _ members: JSONObject) throws {
        try userControl.set(userID, ControlInput(members, known: UserControl.members))
    }

    /// Returns the published keys, as in `/.well-known/jwks.json`.
    ///
    /// - Throws: `Problem` if no key can be generated.
    package func publishedKeys() async throws -> JSONValue {
        try await signingKeys.publishedKeys()
    }

    /// Replaces the key that signs ID tokens and account events. Only the most recent older key stays published.
    package func rotateKeys() async throws {
        try await signingKeys.rotate()
    }

    /// Logs a user in to the app, who consents to more scopes, and issues both tokens.
    ///
    /// - Parameters:
    ///   - appKey: The app key that the user logs in with and that refreshes the tokens: the REST API key, unless
    ///     another is given.
    ///   - accessTokenSeconds: The lifetime of this login's access tokens, if not that of the settings.
    ///   - refreshTokenSeconds: The same for its refresh tokens.
    /// - Returns: The tokens without an ID token, or `nil` if 1,000,000 tokens are stored already.
    package func logIn(
        _ userID: Int64,
        appKey: String? = nil,
        consentingTo scopes: [String] = [],
        accessTokenSeconds: Int64? = nil,
        refreshTokenSeconds: Int64? = nil
    ) -> RequestToken.Answer? {
        loginControl.logIn(
            userID,
            appKey: appKey,
            consentingTo: scopes,
            accessTokenSeconds: accessTokenSeconds,
            refreshTokenSeconds: refreshTokenSeconds
        )
    }

    /// Changes the list of Kakao's addresses: the body of `POST /sandbox/addresses`.
    ///
    /// - Throws: `Problem` that names the field.
    package func setAddresses(_ members: JSONObject) throws {
        try addresses.set(ControlInput(members, known: AddressCalls.members))
    }

    /// Makes the next authorization of a user end in an error, as if the user had denied it.
    package func failNextAuthorization(of userID: Int64, with error: String = "access_denied") {
        _ = tokens.failNextAuthorization(of: userID, with: error)
    }

    /// Returns what the token endpoint did for a user, or for all users.
    package func tokenReport(of userID: Int64? = nil) -> TokenReport {
        tokens.report(of: userID)
    }

    /// Returns the requests with superseded refresh tokens of a user or of all users, the oldest first. The latest 10,000
    /// are kept.
    package func tokenReuses(of userID: Int64? = nil) -> [TokenReuse] {
        tokens.reuses(of: userID)
    }

    /// Revokes an access token, as a logout with this token does.
    package func revokeAccessToken(_ token: String) {
        tokens.revoke(token)
    }

    /// Revokes all codes and tokens of a user.
    package func revokeAccessTokens(of userID: Int64) {
        tokens.revoke(userID: userID)
    }

    /// The sandbox's counts.
    package var stats: SandboxStats {
        SandboxStats(ledger, faults, link, feedback)
    }
}
