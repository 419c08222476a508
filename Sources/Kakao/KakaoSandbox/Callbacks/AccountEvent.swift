import Crypto
import HTTPClient
import HTTPServer
import HTTPTypes
import JSON
import Locking

/// A change of a user's account that Kakao reports to the push server (Kakao Login, "Account status change webhook").
package struct AccountEvent: Sendable {
    package let userID: Int64
    /// The URI that identifies the kind of event.
    package var type = "https://schemas.openid.net/secevent/oauth/event-type/user-unlinked"
    /// The reason, for kinds of event that have one. Any text is valid.
    package var reason: String?
    /// The app key in the token's `aud` claim; `nil` for the REST API key of the settings, as at Kakao.
    package var appKey: String?
    /// `jti`; `nil` for a random one. Use the same one twice to simulate a duplicate event.
    package var tokenID: String?
    /// Whether the token is signed with a key other than Kakao's.
    package var isForged = false
    /// The push server's base URL; `nil` for the one in the settings.
    package var callbackURL: String?
    /// The time limit for the push server's response. Kakao waits for 3 seconds.
    package var timeout = Duration.seconds(3)

    package init(userID: Int64) {
        self.userID = userID
    }

    /// Reads the body of `POST /sandbox/account-events`.
    ///
    /// - Throws: ``Problem`` that names the field.
    init(bodyOf request: Request) throws(Problem) {
        let known: Set<String> = ["user_id", "type", "reason", "app_key", "jti", "forged", "callback_url"]
        let input = try ControlInput(bodyOf: request, known: known)
        self.init(userID: try input.requiredInteger("user_id", in: 1...Int64.max))
        if let type = try input.string("type") { self.type = type }
        reason = try input.string("reason")
        appKey = try input.string("app_key")
        tokenID = try input.string("jti")
        isForged = try input.bool("forged") ?? false
        callbackURL = try input.string("callback_url")
    }
}

/// Posts security event tokens (RFC 8417, RFC 8935) to the push server, without retries.
struct AccountEventCall: Sendable {
    let sender: CallbackSender
    let restAPIKey: String
    let signingKeys: SigningKeys
    /// The sandbox's URL, which is the issuer of the tokens.
    let issuer: Locked<String>

    /// Sends the token of an event to the push server once.
    ///
    /// - Throws: `Problem` if no key can be generated.
    func send(_ event: AccountEvent) async throws -> CallbackOutcome {
        let (url, timeout) = (event.callbackURL, event.timeout)
        guard var request = sender.request("/kakao/account-events", at: url, timeout: timeout) else {
            return .unknownURL
        }
        var event = event
        let tokenID = event.tokenID ?? RandomKey.hexadecimal(words: 2)
        event.tokenID = tokenID
        request.method = .post
        request.headerFields = [.contentType: "application/secevent+jwt", .accept: "application/json"]
        request.body = Array(try await token(event).utf8)
        var outcome = CallbackOutcome(isSent: true, id: tokenID)
        let response = await sender.send(request, &outcome)
        outcome.error = response.flatMap { try? JSONValue(parsing: $0.body) }?["err"]?.string
        return outcome
    }

    /// Returns the security event token of an event, signed with the current key.
    ///
    /// - Parameters:
    ///   - claims: Claims that are added to Kakao's, or replace them.
    ///   - namesKey: Whether the token has `kid`, as Kakao's tokens do.
    /// - Throws: `Problem` if no key can be generated.
    func token(
        _ event: AccountEvent,
        claims: JSONObject = JSONObject(),
        namesKey: Bool = true
    ) async throws -> String {
        let issuer = JSONValue.string(issuer.withLock { $0 })
        let user = JSONValue.string(String(event.userID))
        let now = JSONValue.integer(WallClock.unixMilliseconds / 1000)
        var details: JSONObject = ["subject": ["subject_type": "iss-sub", "iss": issuer, "sub": user]]
        if let reason = event.reason { details["reason"] = .string(reason) }
        var all: JSONObject = [
            "iss": issuer, "aud": .string(event.appKey ?? restAPIKey), "sub": user, "iat": now, "toe": now,
            "txn": .string(RandomKey.hexadecimal(words: 2)),
            "jti": .string(event.tokenID ?? RandomKey.hexadecimal(words: 2)),
            "events": .object([event.type: .object(details)]),
        ]
        for (name, value) in claims.members { all[name] = value }
        let token = try await signingKeys.current().sign(all, type: "secevent+jwt", namesKey: namesKey)
        guard event.isForged else { return token }
        // Signed with another key, under the `kid` of Kakao's.
        let parts = token.split(separator: ".")
        let forger = try await SigningKey.make()
        return "\(parts[0]).\(parts[1]).\(forger.signature(of: "\(parts[0]).\(parts[1])"))"
    }
}
