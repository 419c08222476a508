import HTTPClient
import KakaoAPI
import Locking
import Testing

/// The call that requests tokens from Kakao's authorization server, and that server's errors.
@Suite struct TokenCallTests {
    private static let client = OAuthClient(id: "rest-api-key", secret: "client-secret")
    private static let refresh = RequestToken.refreshing("refresh-token", for: client)
    private static let exchange = RequestToken.exchanging(
        code: "the-code",
        redirectURI: "https://example.com/callback",
        codeVerifier: "the-verifier",
        for: client
    )
    /// Whatever must not appear in texts.
    private static let secrets = ["client-secret", "refresh-token", "the-code", "the-verifier", "access-token"]

    private static func error(_ status: Int, _ body: String, head: String = "") async throws -> KakaoError {
        let (error, _) = try await withKakao(answering: answer(status, body, head: head)) { kakao in
            await failure { () async throws(KakaoError) in try await kakao.call(refresh, as: .none) }
        }
        return try #require(error)
    }

    // MARK: Requests and answers

    @Test("A refresh sends the refresh token, and may return no other one")
    func refresh() async throws {
        let body = #"{"token_type":"bearer","access_token":"new","expires_in":21599}"#
        let (tokens, calls) = try await withKakao(answering: answer(200, body)) { kakao in
            try await kakao.call(Self.refresh, as: .none)
        }
        #expect(tokens.accessToken == "new")
        #expect(tokens.expiresInSeconds == 21_599)
        #expect(tokens.refreshToken == nil)
        #expect(tokens.refreshTokenExpiresInSeconds == nil)
        #expect(tokens.scopes == nil)
        #expect(tokens.idToken == nil)
        let request = try #require(calls.first)
        #expect(request.lines.first == "POST /auth/oauth/token HTTP/1.1")
        #expect(!request.lines.contains { $0.hasPrefix("Authorization") })
        #expect(
            request.form == [
                "grant_type=refresh_token", "client_id=rest-api-key", "client_secret=client-secret",
                "refresh_token=refresh-token",
            ]
        )
    }

    @Test("A refresh that rotates the refresh token returns the new one with its lifetime")
    func rotation() async throws {
        let body = """
            {"access_token":"new","expires_in":21599,"refresh_token":"next","refresh_token_expires_in":5184000,
             "scope":"account_email  openid","id_token":"a.b.c"}
            """
        let (tokens, _) = try await withKakao(answering: answer(200, body)) { kakao in
            try await kakao.call(Self.refresh, as: .none)
        }
        #expect(tokens.refreshToken == "next")
        #expect(tokens.refreshTokenExpiresInSeconds == 5_184_000)
        #expect(tokens.scopes == ["account_email", "openid"])
        #expect(tokens.idToken == "a.b.c")
    }

    @Test("An app key without a client secret sends none")
    func withoutSecret() async throws {
        let call = RequestToken.exchanging(
            code: "the-code",
            redirectURI: "kakao1234://oauth",
            codeVerifier: nil,
            for: OAuthClient(id: "native-app-key", secret: nil)
        )
        let (_, calls) = try await withKakao(answering: answer(200, #"{"access_token":"a","expires_in":0}"#)) { kakao in
            try await kakao.call(call, as: .none)
        }
        #expect(
            calls.first?.form == [
                "grant_type=authorization_code", "client_id=native-app-key", "redirect_uri=kakao1234://oauth",
                "code=the-code",
            ]
        )
    }

    @Test(
        "An answer without a usable access token is bad",
        arguments: [
            #"{"expires_in":1}"#, #"{"access_token":"","expires_in":1}"#, #"{"access_token":"a b","expires_in":1}"#,
            #"{"access_token":"a\u000ab","expires_in":1}"#, #"{"access_token":"토큰","expires_in":1}"#,
            #"{"access_token":7,"expires_in":1}"#, #"{"access_token":"a"}"#, #"{"access_token":"a","expires_in":-1}"#,
            #"{"access_token":"\#(String(repeating: "a", count: 2049))","expires_in":1}"#, "", "[]", "soon",
        ]
    )
    func badAnswer(body: String) async throws {
        guard case .unrecognized = try await Self.error(200, body).kind else {
            Issue.record("accepted")
            return
        }
    }

    @Test("An answer with an odd refresh token or lifetime is usable")
    func oddAnswer() async throws {
        let body = #"{"access_token":"a","expires_in":9223372036854775807,"refresh_token":null,"scope":7}"#
        let (tokens, _) = try await withKakao(answering: answer(200, body)) { kakao in
            try await kakao.call(Self.refresh, as: .none)
        }
        #expect(tokens.expiresInSeconds == Int64(Int32.max))
        #expect(tokens.refreshToken == nil)
        #expect(tokens.scopes == nil)
    }

    // MARK: Secrecy

    @Test("Tokens, codes and the client secret are not printed")
    func printing() async throws {
        let tokens = RequestToken.Answer(
            accessToken: "access-token",
            expiresInSeconds: 1,
            refreshToken: "refresh-token",
            refreshTokenExpiresInSeconds: 1,
            scopes: [],
            idToken: "access-token"
        )
        func texts(of value: Any) -> [String] {
            var dumped = ""
            dump(value, to: &dumped)
            return ["\(value)", String(reflecting: value), dumped]
        }
        let values: [Any] = [Self.refresh, Self.exchange, Self.client, tokens, [tokens], Optional(Self.refresh) as Any]
        for text in values.flatMap(texts) { Self.expectNoSecret(in: text) }
        _ = try await withKakao(answering: "") { kakao in
            for call in [Self.refresh, Self.exchange] {
                let shown = kakao.shownRequest(of: call, as: .none)
                let form = String(decoding: shown.body, as: UTF8.self)
                Self.expectNoSecret(in: form)
                #expect(form.contains("client_id=rest-api-key"))
                #expect(form.contains("client_secret=%2A%2A%2A"))
                Self.expectNoSecret(in: "\(shown)")
            }
        }
    }

    @Test(
        "Kakao's text is shown without the secrets of the request, in whatever form it repeats them",
        arguments: [
            "authorization code not found for code=another-code", "authorization code not found for code=the-code",
            "no refresh-token here", "client-secret", "code_verifier=verifier", "the-code the-verifier client-secret",
        ]
    )
    func description(text: String) async throws {
        let body = #"{"error":"invalid_grant","error_description":"\#(text)","error_code":"KOE320"}"#
        let calls = [
            (Self.refresh, ["client-secret", "refresh-token"]),
            (Self.exchange, ["client-secret", "the-code", "the-verifier"]),
        ]
        for (call, secrets) in calls {
            let reports = Locked<[KakaoCallReport]>([])
            let note: @Sendable (KakaoCallReport) -> Void = { report in reports.withLock { $0.append(report) } }
            let (error, _) = try await withKakao(answering: answer(400, body), onCall: note) { kakao in
                await failure { () async throws(KakaoError) in try await kakao.call(call, as: .none) }
            }
            for error in [error, reports.withLock { $0.first?.error }] {
                let shown = try #require(error.map { "\($0) \(String(reflecting: $0))" })
                #expect(shown.hasPrefix("Kakao answered 400, KOE320 invalid_grant: "))
                for secret in secrets + ["another-code", "=verifier"] { #expect(!shown.contains(secret)) }
            }
        }
    }

    private static func expectNoSecret(in text: String) {
        for secret in secrets { #expect(!text.contains(secret)) }
    }

    // MARK: Errors

    /// A row of Kakao's table of errors.
    struct Row: Sendable, CustomTestStringConvertible {
        let status: Int
        let error: String?
        let code: String?
        let disposition: Disposition

        init(_ status: Int, _ error: String?, _ code: String?, _ disposition: Disposition) {
            (self.status, self.error, self.code, self.disposition) = (status, error, code, disposition)
        }

        var testDescription: String { "\(status) \(error ?? "-") \(code ?? "-")" }

        var body: String {
            let members = [("error", error), ("error_description", "said"), ("error_code", code)]
            let texts = members.compactMap { name, value in value.map { "\"\(name)\":\"\($0)\"" } }
            return "{\(texts.joined(separator: ","))}"
        }
    }

    @Test(
        "The error of the authorization server determines the disposition",
        arguments: [
            Row(400, "invalid_request", "KOE001", .fail), Row(400, "invalid_request", "KOE002", .fail),
            Row(500, "server_error", "KOE003", .retry), Row(400, "server_error", "KOE003", .retry),
            Row(400, "misconfigured", "KOE009", .halt), Row(401, "misconfigured", "KOE009", .halt),
            Row(401, "invalid_client", "KOE010", .halt), Row(400, "invalid_client", "KOE010", .halt),
            Row(401, "invalid_client", "KOE101", .halt), Row(400, "invalid_client", "KOE101", .halt),
            Row(400, "invalid_request", "KOE201", .fail), Row(400, "invalid_scope", "KOE205", .fail),
            Row(400, "invalid_request", "KOE207", .fail),
            Row(400, nil, "KOE237", .wait), Row(400, "invalid_request", "KOE237", .wait),
            Row(429, nil, "KOE237", .wait),
            Row(400, "invalid_grant", "KOE303", .logIn),
            Row(400, "unsupported_grant_type", "KOE310", .halt),
            Row(400, "invalid_grant", "KOE319", .logIn), Row(400, "invalid_grant", "KOE320", .logIn),
            Row(400, "invalid_grant", "KOE322", .logIn),
            Row(400, "invalid_token", "KOE400", .fail), Row(400, "invalid_token", "KOE401", .fail),
            Row(400, "invalid_token", "KOE402", .fail), Row(400, "invalid_token", "KOE403", .fail),
        ]
    )
    func errors(row: Row) async throws {
        let error = try await Self.error(row.status, row.body)
        #expect(error.disposition == row.disposition)
        #expect(error.oauthError == OAuthError(error: row.error ?? "", code: row.code))
        guard case .refused(row.status, nil, "said") = error.kind else {
            Issue.record("parsed as \(error)")
            return
        }
    }

    @Test(
        "Without a known code, the name of the error or the status determines the disposition",
        arguments: [
            Row(401, "invalid_client", nil, .halt), Row(400, "misconfigured", nil, .halt),
            Row(403, "unauthorized_client", nil, .halt), Row(400, "unsupported_grant_type", nil, .halt),
            Row(400, "invalid_grant", nil, .logIn), Row(400, "invalid_grant", "KOE999", .logIn),
            Row(400, "invalid_request", nil, .fail), Row(400, "unknown_error", "KOE999", .fail),
            Row(400, nil, nil, .unrecognized), Row(401, nil, nil, .unrecognized), Row(429, nil, nil, .unrecognized),
            Row(500, "invalid_grant", "KOE322", .retry), Row(503, nil, nil, .unrecognized),
            Row(502, "invalid_client", nil, .retry),
        ]
    )
    func unknownCodes(row: Row) async throws {
        #expect(try await Self.error(row.status, row.body).disposition == row.disposition)
    }

    @Test(
        "Errors whose names and codes have another form are not Kakao's",
        arguments: [
            #"{"error":"Bad Request","error_code":"KOE"}"#, #"{"error":7,"error_code":322}"#,
            #"{"error":"","error_code":"KOE322x"}"#, #"{"error":"refresh-token","error_code":"322"}"#, "[]", "",
            #"{"error":"\#(String(repeating: "a", count: 65))","error_code":"KOE123456"}"#,
        ]
    )
    func oddErrors(body: String) async throws {
        let error = try await Self.error(400, body)
        #expect(error.oauthError == nil)
        #expect(error.disposition == .unrecognized)
    }

    @Test("The error includes Retry-After")
    func retryAfter() async throws {
        let error = try await Self.error(400, #"{"error_code":"KOE237"}"#, head: "Retry-After: 600\r\n")
        #expect(error.retryAfter == .seconds(600))
        #expect("\(error)" == "Kakao answered 400, KOE237")
        #expect(try await Self.error(400, #"{"error_code":"KOE237"}"#).retryAfter == nil)
    }

    @Test("Errors of the API have no error of the authorization server")
    func otherCalls() async throws {
        let body = #"{"error":"invalid_client","error_code":"KOE101"}"#
        let (error, _) = try await withKakao(answering: answer(400, body)) { kakao in
            await failure { () async throws(KakaoError) in try await kakao.send() }
        }
        #expect(error?.oauthError == nil)
        #expect(error?.disposition == .unrecognized)
    }
}
