import Accounts
import Crypto
import HTTPClient
import HTTPTypes
import KakaoAPI
import Net
import Server
import Settings

/// Checks of what logins need at Kakao: the REST API key, its client secret, and the redirect URI.
struct LoginChecks: Sendable {
    /// The place of the REST API key in Kakao's console, with its client secret and redirect URIs.
    private static let consolePage = "\(ConsoleField.restAPIKey) of Kakao's console"

    let settings: Settings
    let client: HTTPClient

    // MARK: The key and its secret

    /// Checks the REST API key and the client secret: Kakao checks both before it rejects an invalid refresh token.
    func keys() async -> [Finding] {
        guard let key = settings.kakao.restAPIKey, settings.accounts.encryptionKey != nil else {
            let missing = settings.kakao.restAPIKey == nil ? "not set" : "not needed without accounts.encryption_key"
            return [
                Finding("kakao.rest_api_key", .skipped("\(missing): users do not log in with it")),
                Finding("kakao.client_secret", .skipped("users do not log in with kakao.rest_api_key")),
            ]
        }
        let request = RequestToken.refreshing(
            RandomKey.hexadecimal(words: 4),
            for: OAuthClient(id: key, secret: settings.kakao.clientSecret?.revealed)
        )
        let outcome: Outcome
        do throws(KakaoError) {
            _ = try await KakaoClient(settings: settings.kakao.api, client: client).call(request, as: .none)
            outcome = .unknown(.wrong("the response is not from Kakao: correct kakao.auth_url"))
        } catch {
            outcome = Outcome(error)
        }
        return findings(outcome)
    }

    /// The result of the check of the key and its secret, by Kakao's response.
    private enum Outcome {
        case accepted
        case wrongSecret
        case wrongKey(String)
        case unknown(Verdict)

        init(_ error: KakaoError) {
            switch error.kind {
            case .unreachable:
                self = .unknown(.skipped("kakao.auth_url is unreachable"))
                return
            case .unrecognized(let response) where !response.isTemporary:
                self = .unknown(
                    .wrong("\(error): correct kakao.auth_url, or find out what responds in Kakao's place")
                )
                return
            case .refused, .unrecognized: break
            }
            switch (error.oauthError?.code, error.disposition) {
            case (_, .logIn): self = .accepted
            case ("KOE010", _): self = .wrongSecret
            case ("KOE101", _): self = .wrongKey("copy the REST API key")
            case ("KOE008", _), ("KOE009", _): self = .wrongKey("it is a key of apps or pages; copy the REST API key")
            case (_, .retry), (_, .wait), (_, .unrecognized):
                self = .unknown(.warning("\(error), so the key could not be checked: try again later"))
            default: self = .unknown(.wrong("\(error): check kakao.auth_url and the key"))
            }
            if case .wrongKey(let remedy) = self { self = .wrongKey("\(error): \(remedy) from \(consolePage)") }
        }
    }

    private func findings(_ outcome: Outcome) -> [Finding] {
        let hasSecret = settings.kakao.clientSecret != nil
        let key: Verdict
        let secret: Verdict
        switch outcome {
        case .accepted:
            key = .ok("Kakao issues tokens for it")
            secret = hasSecret ? .ok("Kakao accepts it") : .skipped("not set, and not activated at Kakao")
        case .wrongSecret:
            key = .ok("Kakao knows it")
            secret = .wrong(
                hasSecret
                    ? "Kakao rejects it: copy the client secret again from \(Self.consolePage)"
                    : "not set, but Kakao requires it: copy the client secret from \(Self.consolePage)"
            )
        case .wrongKey(let remedy):
            key = .wrong(remedy)
            secret = .skipped("Kakao rejects kakao.rest_api_key")
        case .unknown(let verdict):
            key = verdict
            secret = .skipped("kakao.rest_api_key could not be checked")
        }
        return [Finding("kakao.rest_api_key", key), Finding("kakao.client_secret", secret)]
    }

    // MARK: The redirect URI

    /// Checks that the redirect URI is registered: Kakao redirects only to a registered one, even a browser in which no
    /// user is logged in.
    func redirectURI() async -> Verdict {
        guard !settings.accounts.returnURLs.isEmpty, let key = settings.kakao.restAPIKey else {
            return .skipped("login.return_urls is not set")
        }
        guard case .given(let publicURL) = settings.publicURL else {
            return .skipped("http.public_url is not set")
        }
        let uri = publicURL + AccountFeature.redirectPath
        var query = FormBody()
        query.append("client_id", key)
        query.append("redirect_uri", uri)
        query.append("response_type", "code")
        query.append("prompt", "none")
        let url = "\(settings.kakao.authURL)/oauth/authorize?\(String(decoding: query.bytes, as: UTF8.self))"
        do throws(HTTPClientError) {
            return Self.verdict(try await client.send(HTTPClientRequest(url: url)), uri)
        } catch {
            return .skipped("kakao.auth_url is unreachable")
        }
    }

    private static func verdict(_ response: HTTPClientResponse, _ uri: String) -> Verdict {
        let location = response.headerFields[.location] ?? ""
        if response.status / 100 == 3, location.hasPrefix("\(uri)?") {
            return .ok("Kakao returns browsers to \(uri)")
        }
        // Kakao shows errors of the app's configuration as a page.
        let page = location + String(decoding: response.body, as: UTF8.self)
        return switch page.firstMatch(of: /KOE\d{3}/)?.output {
        case "KOE006": .wrong("Kakao does not know it: enter exactly \(uri) as a redirect URI at \(consolePage)")
        case "KOE004": .wrong("Kakao Login is not activated for the app: activate it in Kakao's console")
        case "KOE101", "KOE008": .skipped("Kakao rejects kakao.rest_api_key")
        case let code:
            .warning(
                "Kakao responded with status \(response.status)\(code.map { " and \($0)" } ?? ""), so it could not be checked: "
                    + "log in at \(uri.dropLast(AccountFeature.redirectPath.count))/login/kakao with a browser"
            )
        }
    }
}
