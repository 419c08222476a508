import HTTPClient
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
}

/// The result of sending an event.
package struct AccountEventOutcome: Sendable, Equatable {
    /// Whether the push server was called.
    package var isSent: Bool
    /// The HTTP status of the push server's response; `nil` if there was none in time.
    package var status: Int?
    /// `jti` of the token; `nil` if the push server was not called.
    package var tokenID: String?
    /// `err` of the response, if it has one.
    package var error: String?
    /// The reason why the push server was not called, or why there is no status.
    package var reason: String?
}

/// Posts security event tokens (RFC 8417, RFC 8935) to the push server, without retries.
struct AccountEventCall: Sendable {
    private static let path = "/kakao/account-events"

    let client: HTTPClient
    let restAPIKey: String
    let signingKeys: SigningKeys
    /// The sandbox's URL, which is the issuer of the tokens.
    let issuer: Locked<String>

    /// Sends the token of an event to the push server once.
    ///
    /// - Parameter baseURL: The push server's base URL, unless the event has one of its own.
    /// - Throws: `Problem` if no key can be generated.
    func send(_ event: AccountEvent, baseURL: String?) async throws -> AccountEventOutcome {
        guard let baseURL = event.callbackURL ?? baseURL else {
            return AccountEventOutcome(
                isSent: false,
                reason: "The push server's URL is unknown. Set callback_url or --callback-url."
            )
        }
        var event = event
        let tokenID = event.tokenID ?? Self.identifier()
        event.tokenID = tokenID
        let base = baseURL.hasSuffix("/") ? String(baseURL.dropLast()) : baseURL
        var request = HTTPClientRequest(method: .post, url: base + Self.path, totalTimeout: event.timeout)
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
        // Signed with another key, under the `kid` of Kakao's.
        let parts = token.split(separator: ".")
        let forger = try await SigningKey.make()
        return "\(parts[0]).\(parts[1]).\(forger.signature(of: "\(parts[0]).\(parts[1])"))"
    }

    /// Returns 32 random hexadecimal digits.
    private static func identifier() -> String {
        (0..<2).map { _ in
            let digits = String(UInt64.random(in: .min ... .max), radix: 16)
            return String(repeating: "0", count: 16 - digits.utf8.count) + digits
        }.joined()
    }
}
