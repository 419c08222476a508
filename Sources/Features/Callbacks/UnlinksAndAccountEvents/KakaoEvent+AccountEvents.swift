import Endpoints
import FoundationEssentials
import Identity
import JSON

extension KakaoEvent {
    /// How far in the future a token may have been issued, in seconds. Kakao sends an event only once, so a slightly
    /// wrong clock must not cause a loss.
    private static let leewaySeconds = 300.0

    /// Parses the events of a security event token, usually one (RFC 8417 §2.2; Kakao Login, "Account status change
    /// webhook").
    ///
    /// The issuer and the audience are not checked here.
    ///
    /// - Parameter receivedAt: When the token arrived.
    /// - Throws: ``SecurityEventRefusal`` for a malformed token.
    static func all(in token: JSONWebToken, receivedAt: Date) throws(SecurityEventRefusal) -> [KakaoEvent] {
        let claims = token.claims
        guard let issuedAt = claims["iat"].flatMap(TokenVerifier.seconds),
            Double(issuedAt) <= receivedAt.timeIntervalSince1970 + leewaySeconds
        else { throw SecurityEventRefusal(.invalidRequest, "iat must be a time that is not in the future.") }
        guard let tokenID = claims["jti"]?.string, isName(tokenID) else {
            throw SecurityEventRefusal(.invalidRequest, "jti must be 1 to 255 visible ASCII characters.")
        }
        guard let members = claims["events"]?.object?.members, !members.isEmpty,
            // A type is a URI, so that none equals ``unlinkType``.
            members.allSatisfy({ isName($0.name) && $0.name.contains(":") && $0.value.object != nil })
        else { throw SecurityEventRefusal(.invalidRequest, "events must map the URIs of events to objects.") }
        let payload = JSONValue.object(claims).withoutNUL.bytes()
        return members.enumerated().map { index, event in
            KakaoEvent(
                id: .v7(),
                // Each event of a token is a row of its own.
                key: index == 0 ? "account-event \(tokenID)" : "account-event \(tokenID) \(index)",
                type: event.name,
                userID: userID(event.value, claims),
                referrerType: event.value["reason"]?.string?.withoutNUL,
                payload: payload,
                raw: nil,
                receivedAt: receivedAt
            )
        }
    }

    /// Returns the user that an event concerns: its own subject, or that of the token. A subject of another issuer is
    /// no user of this app.
    private static func userID(_ event: JSONValue, _ claims: JSONObject) -> Int64? {
        guard let subject = event["subject"], let name = subject["sub"] else {
            return TokenVerifier.userID(claims["sub"])
        }
        guard subject["iss"] == claims["iss"] || subject["iss"] == nil else { return nil }
        return TokenVerifier.userID(name)
    }

    private static func isName(_ text: String) -> Bool {
        (1...255).contains(text.utf8.count) && text.utf8.allSatisfy { $0 > 0x20 && $0 < 0x7F }
    }
}

extension JSONValue {
    /// The value with ``String/withoutNUL`` applied to each name and string.
    fileprivate var withoutNUL: JSONValue {
        switch self {
        case .null, .bool, .number: return self
        case .string(let text): return .string(text.withoutNUL)
        case .array(let elements): return .array(elements.map(\.withoutNUL))
        case .object(let object):
            var copy = JSONObject()
            for (name, value) in object.members { copy[name.withoutNUL] = value.withoutNUL }
            return .object(copy)
        }
    }
}
