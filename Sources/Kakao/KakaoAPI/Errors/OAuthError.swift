import JSON

/// The error of Kakao's authorization server, kauth.kakao.com (RFC 6749 §5.2; Kakao, "REST API: Response code").
package struct OAuthError: Sendable, Hashable {
    /// The name of the error, such as `invalid_grant`; empty if there is only a code.
    package let error: String
    /// Kakao's code, such as `KOE322`; `nil` if there is none.
    package let code: String?

    package init(error: String, code: String?) {
        self.error = error
        self.code = code
    }

    /// Parses `{"error": …, "error_code": …}`. Values of another form are ignored, because they could contain anything. The form
    /// also tells them from the errors of other systems, such as `"error": "Forbidden"`.
    init?(_ body: JSONValue?) {
        let error = body?["error"]?.string.flatMap { Self.isName($0) ? $0 : nil }
        let code = body?["error_code"]?.string.flatMap { Self.isCode($0) ? $0 : nil }
        guard error != nil || code != nil else { return nil }
        self.init(error: error ?? "", code: code)
    }

    private static func isName(_ text: String) -> Bool {
        (1...64).contains(text.utf8.count)
            && text.utf8.allSatisfy { $0 == UInt8(ascii: "_") || (UInt8(ascii: "a")...UInt8(ascii: "z")).contains($0) }
    }

    private static func isCode(_ text: String) -> Bool {
        text.hasPrefix("KOE") && (4...8).contains(text.utf8.count) && HTTPDate.number(text.dropFirst(3)) != nil
    }

    /// How the caller should handle the error; `nil` if the error does not say it.
    ///
    /// KOE237 limits the tokens of one user, so `wait` concerns that user only: 10 minutes if Kakao names no time.
    var disposition: Disposition? {
        switch code {
        case "KOE003": return .retry
        case "KOE237": return .wait
        // The app's settings or this server's are wrong. The tokens of its users may still be valid.
        case "KOE009", "KOE010", "KOE101", "KOE310": return .halt
        // A stranger can return from a login with a code that was issued for another redirect URI of the app (KOE303): it says
        // nothing about the settings, as another code does not.
        case "KOE303", "KOE319", "KOE320", "KOE322": return .logIn
        default: break
        }
        switch error {
        case "invalid_client", "misconfigured", "unauthorized_client", "unsupported_grant_type": return .halt
        case "invalid_grant": return .logIn
        default: return nil
        }
    }
}

extension OAuthError: CustomStringConvertible {
    package var description: String {
        [code, error].compactMap { $0?.isEmpty == false ? $0 : nil }.joined(separator: " ")
    }
}
