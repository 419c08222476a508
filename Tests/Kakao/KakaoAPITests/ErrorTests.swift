import HTTPClient
import JSON
import Testing

@testable import KakaoAPI

/// Kakao's error responses and their handling.
@Suite struct ErrorTests {
    private static func error(_ status: Int, _ body: String, head: String = "") async throws -> KakaoError {
        let (error, _) = try await withKakao(answering: answer(status, body, head: head)) { kakao in
            await failure { () async throws(KakaoError) in try await kakao.send()
            }
        }
        return try #require(error)
    }

    @Test(
        "The code determines the disposition, whatever the status",
        arguments: [
            (400, -1, Disposition.retry), (400, -7, .retry), (400, -603, .retry), (503, -9798, .retry),
            (400, -10, .wait), (429, -10, .wait),
            (401, -401, .halt), (403, -3, .halt), (403, -5, .halt), (400, -9, .halt), (403, -12, .halt),
            (400, -2, .invalid),
            (403, -4, .fail), (403, -6, .fail), (400, -8, .fail), (400, -11, .fail), (400, -101, .fail),
            (403, -402, .fail),
            (400, -501, .fail), (400, -502, .fail), (400, -504, .fail), (400, -530, .fail), (400, -531, .fail),
            (400, -532, .fail), (400, -533, .fail), (400, -536, .fail), (400, -541, .fail), (400, -544, .fail),
            (400, -815, .retry), (400, -816, .fail), (400, -817, .fail), (400, -818, .fail), (400, -819, .fail),
            (400, -12_345, .fail), (500, -12_345, .retry), (404, -12_345, .fail),
        ]
    )
    func codes(status: Int, code: Int, disposition: Disposition) async throws {
        // The members may be in any order.
        let bodies = [#"{"msg":"said","code":\#(code)}"#, #"{"code":\#(code),"api_type":"X","msg":"said"}"#]
        for body in bodies {
            let error = try await Self.error(status, body)
            #expect(error.disposition == disposition)
            #expect(error.mayHaveBeenSent)
            guard case .refused(status, KakaoErrorCode(rawValue: code), "said") = error.kind else {
                Issue.record("parsed as \(error)")
                return
            }
        }
    }

    @Test(
        "With a user's token, an invalid token and a missing scope concern the user, not the app",
        arguments: [
            (401, #"{"msg":"this access token does not exist","code":-401}"#, Disposition.logIn),
            (401, "", .unrecognized),
            (403, #"{"msg":"insufficient scopes.","code":-402,"required_scopes":["friends"]}"#, .consent),
            (401, #"{"msg":"said","code":-406}"#, .fail), (400, #"{"msg":"said","code":-10}"#, .wait),
            (403, #"{"msg":"said","code":-5}"#, .halt),
        ]
    )
    func userToken(status: Int, body: String, disposition: Disposition) async throws {
        let (error, _) = try await withKakao(answering: answer(status, body)) { kakao in
            await failure { () async throws(KakaoError) in
                try await kakao.call(AccessTokenInfo(), as: .userToken("user-token"))
            }
        }
        #expect(error?.disposition == disposition)
        #expect(error?.requiredScopes == (disposition == .consent ? ["friends"] : []))
    }

    @Test("Required scopes that cannot be stored are left out")
    func scopes() async throws {
        let body = #"{"code":-402,"required_scopes":["friends","a\u0000","",7]}"#
        let (error, _) = try await withKakao(answering: answer(403, body)) { kakao in
            await failure { () async throws(KakaoError) in
                try await kakao.call(AccessTokenInfo(), as: .userToken("user-token"))
            }
        }
        #expect(error?.requiredScopes == ["friends"])
    }

    @Test(
        "An error without Kakao's code is not Kakao's, and its status says whether the call may have been carried out",
        arguments: [
            (500, false), (502, true), (503, false), (504, true), (524, true), (302, false), (429, false), (401, false),
            (400, false), (403, false), (404, false), (405, false), (407, false), (413, false),
        ],
        [
            "", "<html><h1>Bad gateway</h1></html>", "{}", #"{"code":"-10","msg":7}"#, #"{"code":403,"msg":"blocked"}"#,
            "[]",
            "{", #"{"error":"forbidden"}"#,
        ]
    )
    func gateways(_ row: (status: Int, mayBeCarriedOut: Bool), body: String) async throws {
        let error = try await Self.error(row.status, body)
        #expect(error.disposition == .unrecognized)
        #expect(error.hasUnknownOutcome == row.mayBeCarriedOut)
        guard case .unrecognized(let response) = error.kind else {
            Issue.record("parsed as \(error)")
            return
        }
        #expect(response.status == row.status)
    }

    @Test("A redirect is never Kakao's, and an error of another API with a success status neither")
    func redirect() async throws {
        for (status, body) in [(302, #"{"msg":"said","code":-2}"#), (200, #"{"msg":"said","code":-2}"#)] {
            #expect(try await Self.error(status, body).disposition == .unrecognized)
        }
    }

    @Test("An unrecognized response is described by what identifies its sender, without the credentials of the request")
    func description() async throws {
        let page = "<html><head><TITLE>Access\n denied</TITLE></head><body>KakaoAK admin-key</body></html>"
        let head = "Content-Type: text/html; charset=utf-8\r\nServer: squid/5.7\r\nVia: 1.1 proxy.example admin-key\r\n"
        let response =
            "HTTP/1.1 407 Said\r\n\(head)Retry-After: 30\r\nContent-Length: \(page.utf8.count)\r\nConnection: close\r\n\r\n\(page)"
        let (error, _) = try await withKakao(answering: response) { kakao in
            await failure { () async throws(KakaoError) in try await kakao.send() }
        }
        let text = "\(try #require(error))"
        for part in ["407", "text/html", "squid/5.7", "proxy.example ***", "Access denied", "kakao.proxy_url"] {
            #expect(text.contains(part), "\(text)")
        }
        #expect(!text.contains("admin-key"))
        #expect(error?.retryAfter == .seconds(30))
        // Without a title, the beginning of the text counts.
        let other = try await Self.error(403, "<p>Your key admin-key is <b>blocked</b></p>")
        #expect("\(other)".contains("Your key *** is blocked"))
        #expect(try await Self.error(403, "\u{0}\u{1}").disposition == .unrecognized)
    }

    @Test("A refused connection is retried, and no byte has left")
    func unreachable() async throws {
        try await withClient(url: "http://127.0.0.1:\(try unusedPort())") { kakao in
            let error = await failure { () async throws(KakaoError) in
                try await kakao.send()
            }
            #expect(error?.disposition == .retry)
            #expect(error?.mayHaveBeenSent == false)
        }
    }

    @Test("A call without a response is retried, and bytes may have left")
    func unanswered() async throws {
        let (error, _) = try await withKakao(answering: "") { kakao in
            await failure { () async throws(KakaoError) in try await kakao.send() }
        }
        #expect(error?.disposition == .retry)
        #expect(error?.mayHaveBeenSent == true)
        guard case .unreachable(let cause) = error?.kind else {
            Issue.record("parsed as \(String(describing: error))")
            return
        }
        #expect(cause.code == .connectionLost)
    }

    @Test("An invalid API address halts the sender, because it is a configuration error")
    func wrongAddress() async throws {
        try await withClient(url: "kapi.kakao.com") { kakao in
            let error = await failure { () async throws(KakaoError) in
                try await kakao.send()
            }
            #expect(error?.disposition == .halt)
            #expect(error?.mayHaveBeenSent == false)
        }
    }

    @Test(
        "Kakao's messages are shown without tokens and keys",
        arguments: [
            (
                "[app] Invalid Kpusher Param. ( appName=app, uid=12, did=phone-1, pushType=apns, pushToken=abc/+d )",
                "[app] Invalid Kpusher Param. ( appName=app, uid=12, did=***, pushType=apns, pushToken=*** )"
            ),
            ("push_token: x:y device_id=\"z\"", "push_token: *** device_id=\"***\""),
            ("no such token APA91bHun4MxP5egoKMwt2KZFBaFUH", "no such token ***"),
            (#"{"push_token":"short"}"#, #"{"push_token":"***"}"#),
            ("KakaoAK 0123456789abcdef is wrong", "KakaoAK *** is wrong"),
            ("this access token does not exist", "this access token does not exist"),
            (
                "ip mismatched! callerIp=10.1.2.3. check out registered ips.",
                "ip mismatched! callerIp=10.1.2.3. check out registered ips."
            ),
            ("user 1376016924429759228", "user 1376016924429759228"),
            ("one\r\ntwo\u{1b}[31m", "one  two [31m"),
            ("", ""),
        ]
    )
    func scrubbing(message: String, scrubbed: String) {
        #expect(ErrorMessage.scrubbed(message) == scrubbed)
    }

    @Test("Long messages from Kakao are cut")
    func longMessage() {
        let words = String(repeating: "words ", count: 100_000)
        #expect(ErrorMessage.scrubbed(words) == words.prefix(200))
        #expect(ErrorMessage.scrubbed(String(repeating: "a1", count: 100_000)) == "***")
    }

    @Test("A token in a response does not appear in the error's description")
    func tokenInAnswer() async throws {
        let token = "dQw4w9WgXcQ:APA91bHun4MxP5egoKMwt2KZFBaFUH"
        let error = try await Self.error(400, #"{"msg":"wrong ( pushToken=\#(token), did=d )","code":-2}"#)
        #expect(!"\(error)".contains("APA91b"))
        let echo = try await Self.error(401, #"{"msg":"unknown app admin-key","code":-401}"#)
        #expect("\(echo)" == "Kakao answered 401, code -401: unknown app ***")
        #expect(!String(reflecting: error).contains("APA91b"))
    }

    // MARK: For callers

    @Test("A caller gets Kakao's text to the letter, apart from the secrets of the call, whatever their form")
    func letter() async throws {
        let text = "token=abc, code: 123\\nKakaoAK x1234567890123456789012 Bearer y, key admin-key; 한글"
        let error = try await Self.error(400, #"{"msg":"\#(text)","code":-2}"#)
        #expect(
            error.answer.text == "token=abc, code: 123\nKakaoAK x1234567890123456789012 Bearer y, key ***; 한글"
        )
        // Logs get less.
        #expect("\(error)" == "Kakao answered 400, code -2: token=***, code: *** KakaoAK *** Bearer *** key ***; 한글")
        var dumped = ""
        dump(error.answer, to: &dumped)
        #expect(!dumped.contains("x1234567890123456789012") && !"\(error.answer)".contains("token"))
    }

    @Test("The token of a user and a push token are masked by their values")
    func callersSecrets() async throws {
        let token = "a-user-token"
        let body = #"{"msg":"no \#(token)","code":-401,"seen":["\#(token)!"],"\#(token)":1}"#
        let (error, _) = try await withKakao(answering: answer(401, body)) { kakao in
            await failure { () async throws(KakaoError) in
                _ = try await kakao.relay(AccessTokenInfo(), as: .userToken(token))
            }
        }
        #expect(error?.answer.text == "no ***")
        #expect(error?.answer.members == ["seen": ["***!"], "***": 1])
        let registration = #"{"msg":"( did=a, pushToken=short-token )","code":-2}"#
        let (refused, _) = try await withKakao(answering: answer(400, registration)) { kakao in
            await failure { () async throws(KakaoError) in _ = try await kakao.register(pushToken: "short-token") }
        }
        #expect(refused?.answer.text == "( did=a, pushToken=*** )")
    }

    @Test("Members that Kakao adds are kept in their order, known or not")
    func members() async throws {
        let body = #"""
            {"api_type":"FRIENDS","msg":"insufficient scopes.","allowed_scopes":["profile"],"code":-402,
            "required_scopes":["friends"],"receiver_ids":[9223372036854775807],"later":{"a":[{"b":null}]}}
            """#
        let error = try await Self.error(403, body)
        #expect(
            error.answer.members == [
                "api_type": "FRIENDS", "allowed_scopes": ["profile"], "required_scopes": ["friends"],
                "receiver_ids": [.integer(Int64.max)], "later": ["a": [["b": nil]]],
            ]
        )
        #expect(error.requiredScopes == ["friends"])
    }

    @Test("What is passed on of an error is bounded in size and depth; a member that is too large is left out")
    func bounds() async throws {
        let large = String(repeating: "x", count: 4000)
        let body = #"""
            {"msg":"\#(String(repeating: "m", count: 10_000))","code":-2,"large":"\#(large)","more":"\#(large)",
            "deep":[[[[[1]]]]],"flat":[[[[1]]]],"\#(String(repeating: "n", count: 101))":1,"last":true}
            """#
        let error = try await Self.error(400, body)
        #expect(error.answer.text.utf8.count == 4096)
        #expect(error.answer.members == ["large": .string(large), "flat": [[[[1]]]], "last": true])
        let many = (0..<100).map { #""n\#($0)":\#($0)"# }.joined(separator: ",")
        #expect(try await Self.error(400, #"{"code":-2,\#(many)}"#).answer.members.count == 32)
    }

    @Test(
        "That Kakao refuses the server's address says nothing about the user's token, whose code it has",
        arguments: [
            ("ip mismatched! callerIp=198.51.100.7. check out registered ips.", Disposition.halt),
            ("this access token does not exist", .logIn),
        ]
    )
    func address(message: String, disposition: Disposition) async throws {
        let body = #"{"msg":"\#(message)","code":-401}"#
        let (error, _) = try await withKakao(answering: answer(401, body)) { kakao in
            await failure { () async throws(KakaoError) in
                _ = try await kakao.relay(AccessTokenInfo(), as: .userToken("token"))
            }
        }
        #expect(error?.disposition == disposition)
    }

    @Test(
        "Retry-After is parsed as seconds or a date, and limited to a day",
        arguments: [
            ("0", Duration.seconds(0)), ("120", .seconds(120)), ("99999999999999999999", .seconds(86_400)),
            ("Sun, 06 Nov 1994 08:49:37 GMT", .seconds(60)), ("Sun, 06 Nov 1994 08:00:00 GMT", .seconds(0)),
            ("Mon, 06 Nov 2034 08:49:37 GMT", .seconds(86_400)),
            ("-1", nil), ("+5", nil), ("1.5", nil), ("", nil), ("soon", nil), ("Sun, 06 Nov 1994 08:49 GMT", nil),
            ("Sunday, 06-Nov-94 08:49:37 GMT", nil),
        ]
    )
    func retryAfter(value: String, duration: Duration?) {
        // A minute before the example date of RFC 9110.
        #expect(RetryAfter.duration(value, now: 784_111_777 - 60) == duration)
    }

    @Test("The error includes Retry-After")
    func retryAfterOfAnswer() async throws {
        let error = try await Self.error(
            429,
            #"{"msg":"API limit has been exceeded.","code":-10}"#,
            head: "Retry-After: 90\r\n"
        )
        #expect(error.retryAfter == .seconds(90))
        #expect(try await Self.error(429, "").retryAfter == nil)
    }

    @Test("The Admin key is never printed")
    func adminKey() {
        let settings = KakaoAPISettings(adminKey: KakaoKey("secret"))
        var dumped = ""
        dump(settings, to: &dumped)
        for text in ["\(settings)", String(reflecting: settings), "\(settings.adminKey)", dumped] {
            #expect(!text.contains("secret"))
        }
        #expect(settings.adminKey.unmasked == "secret")
    }
}
