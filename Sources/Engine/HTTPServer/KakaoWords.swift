import HTTPTypes

/// The numbers and words by which callers of Kakao's API know the errors that the server makes itself (Kakao, "REST API: Response
/// code"). `docs/errors.md` lists them.
package enum KakaoWords {
    /// Returns the number that a client written for Kakao's API expects with a status.
    static func code(of status: HTTPResponse.Status) -> Int {
        switch status.code {
        case 400: -2
        case 401: -401
        case 403: -5
        case 429: -10
        case 500: -1
        case 503: -9798
        default: -(1000 + status.code)
        }
    }

    /// Returns Kakao's words for a code; `nil` if they are not known, or differ from case to case.
    package static func message(of code: Int) -> String? {
        switch code {
        case -1: "internal server error!"
        case -5: "permission denied"
        case -10: "API limit has been exceeded."
        case -101: "NotRegisteredUserException"
        case -401: "this access token does not exist"
        case -402: "insufficient scopes."
        case -501: "given account is not connected to any talk user."
        case -532: "daily message limit per sender has been exceeded."
        default: nil
        }
    }
}

extension Problem {
    /// Names the authentication scheme that the caller used, as each 401 has to (RFC 9110 §11.6.1), in Kakao's form, unless the problem has a
    /// challenge of its own. Gives `msg` the words of Kakao for a credential of that scheme, unless it has a text of its own.
    mutating func challenge(_ authorization: String?) {
        guard headerFields[.wwwAuthenticate] == nil else { return }
        func uses(_ scheme: String) -> Bool {
            authorization?.utf8.count ?? 0 > scheme.utf8.count
                && authorization?.prefix(scheme.count).lowercased() == scheme
        }
        let usesKey = uses("kakaoak ")
        headerFields[.wwwAuthenticate] = "\(usesKey ? "KakaoAK" : "Bearer") error=invalid_token"
        guard message == nil, code == KakaoWords.code(of: .unauthorized) else { return }
        if usesKey {
            message = "invalid app key."
        } else if !uses("bearer ") {
            message = "no authentication key!"
        }
    }
}
