internal import HTTPClient
internal import HTTPTypes
internal import JSON
internal import Locking

/// A change of a user's account, as Kakao tells it (Kakao Login, "Account status change webhook").
package struct AccountEvent: Sendable {
    package let userID: Int64
    /// The address that names the kind of event.
    package var type = "https://schemas.openid.net/secevent/oauth/event-type/user-unlinked"
    /// Why, where the kind of event has a reason: any text will do.
    package var reason: String?
    /// The app's key that the token is for; `nil` for the REST API key of the settings, as Kakao has it.
    package var appKey: String?
    /// `jti`; `nil` for one made up. Give the same one twice to play a repetition.
    package var tokenID: String?
    /// Whether its signature is not Kakao's.
    package var isForged = false
    /// The push server's base URL; `nil` for the one of the settings.
    package var callbackURL: String?

    package init(userID: Int64) {
        self.userID = userID
    }
}

/// What became of an event.
package struct AccountEventOutcome: Sendable, Equatable {
    /// Whether Kakao called.
    package var isSent: Bool
    /// What the push server answered; `nil` if it did not, within 3 seconds.
    package var status: Int?
    /// `jti` of the token, when called.
    package var tokenID: String?
    /// `err` of the answer, if it has one.
    package var error: String?
    /// Why it was not called, or why there is no status.
    package var reason: String?
}

/// Calls the push server with a security event token (RFC 8417, RFC 8935): once, and never again.
struct AccountEventCall: Sendable {
    private static let path = "/kakao/account-events"
    private static let timeout = Duration.seconds(3)

    let client: HTTPClient
    let restAPIKey: String
    let signingKeys: SigningKeys
    /// Where the sandbox is reached.
    let issuer: Locked<String>

    /// - Parameter baseURL: The push server's, if the event does not name another.
    /// - Throws: `Problem` when no key can be made.
    func send(_ event: AccountEvent, baseURL: String?) async throws -> AccountEventOutcome {
        guard let baseURL = event.callbackURL ?? baseURL else {
            return AccountEventOutcome(isSent: false, reason: "The sandbox was not told the push server's URL.")
        }
        var event = event
        let tokenID = event.tokenID ?? Self.identifier()
        event.tokenID = tokenID
        let base = baseURL.hasSuffix("/") ? String(baseURL.dropLast()) : baseURL
        var request = HTTPClientRequest(method: .post, url: base + Self.path, totalTimeout: Self.timeout)
        request.headerFields = [.contentType: "application/secevent+jwt", .accept: "application/json"]
        request.body = Array(try await token(event).utf8)
        var outcome = AccountEventOutcome(isSent: true, tokenID: tokenID)
        do throws(HTTPClientError) {
            let response = try await client.send(request)
            outcome.status = response.status
            outcome.error = (try? JSONValue(parsing: response.body))?["err"]?.string
        } catch {
            outcome.reason = error.description
        }
        return outcome
    }

    /// The token that tells of an event, signed with the key that is signed with now.
    ///
    /// - Parameters:
    ///   - claims: Put over those that Kakao's have.
    ///   - namesKey: Whether it has `kid`, as Kakao's do.
    /// - Throws: `Problem` when no key can be made.
    func token(
        _ event: AccountEvent,
        claims: JSONObject = JSONObject(),
        namesKey: Bool = true
    ) async throws -> String {
        let issuer = JSONValue.string(issuer.withLock { $0 })
        let user = JSONValue.string(String(event.userID))
        let now = JSONValue.integer(WallClock.unixMilliseconds / 1000)
        var told: JSONObject = ["subject": ["subject_type": "iss-sub", "iss": issuer, "sub": user]]
        if let reason = event.reason { told["reason"] = .string(reason) }
        var all: JSONObject = [
            "iss": issuer, "aud": .string(event.appKey ?? restAPIKey), "sub": user, "iat": now, "toe": now,
            "txn": .string(Self.identifier()), "jti": .string(event.tokenID ?? Self.identifier()),
            "events": .object([event.type: .object(told)]),
        ]
        for (name, value) in claims.members { all[name] = value }
        let token = try await signingKeys.current().sign(all, type: "secevent+jwt", namesKey: namesKey)
        guard event.isForged else { return token }
        // A key of somebody else's, under the name of Kakao's.
        let parts = token.split(separator: ".")
        let forger = try await SigningKey.make()
        return "\(parts[0]).\(parts[1]).\(forger.signature(of: "\(parts[0]).\(parts[1])"))"
    }

    /// 32 hexadecimal digits.
    private static func identifier() -> String {
        (0..<2).map { _ in
            let digits = String(UInt64.random(in: .min ... .max), radix: 16)
            return String(repeating: "0", count: 16 - digits.utf8.count) + digits
        }.joined()
    }
}
