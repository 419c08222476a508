internal import FoundationEssentials
internal import JSON

extension KakaoEvent {
    /// How far in the future, in seconds, a token may have been issued. Kakao tells only once: a clock that is a little wrong loses nothing.
    private static let leeway = 300.0

    /// Reads what a security event token tells, which as a rule is one event (RFC 8417 §2.2; Kakao Login, "Account status change webhook").
    ///
    /// Who issued it, and for whom, is not looked at here.
    ///
    /// - Throws: ``SecurityEventRefusal`` for a token that is none.
    static func all(in token: JSONWebToken) throws(SecurityEventRefusal) -> [KakaoEvent] {
        let claims = token.claims
        let receivedAt = Date()
        guard let issuedAt = claims["iat"].flatMap(TokenVerifier.seconds),
            Double(issuedAt) <= receivedAt.timeIntervalSince1970 + leeway
        else { throw SecurityEventRefusal(.invalidRequest, "iat must be a time that has come.") }
        guard let tokenID = claims["jti"]?.string, isName(tokenID) else {
            throw SecurityEventRefusal(.invalidRequest, "jti must be 1 to 255 visible ASCII characters.")
        }
        guard let members = claims["events"]?.object?.members, !members.isEmpty,
            // A URI, so that none is ``unlinkType``.
            members.allSatisfy({ isName($0.name) && $0.name.contains(":") && $0.value.object != nil })
        else { throw SecurityEventRefusal(.invalidRequest, "events must be an object of events by their addresses.") }
        let payload = JSONValue.object(claims).withoutNUL.bytes()
        return members.enumerated().map { index, event in
            KakaoEvent(
                id: .v7(),
                // Of several in a token each is a row.
                key: index == 0 ? "account-event \(tokenID)" : "account-event \(tokenID) \(index)",
                type: event.name,
                userID: userID(event.value, claims),
                referrerType: event.value["reason"]?.string?.withoutNUL,
                payload: payload,
                receivedAt: receivedAt
            )
        }
    }

    /// Whom an event concerns: its own subject, or that of the token. Who is somebody at another issuer is nobody here.
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
    /// The same with ``String/withoutNUL`` for every name and string.
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
