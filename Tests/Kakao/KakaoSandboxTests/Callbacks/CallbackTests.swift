import FoundationEssentials
import HTTPClient
import HTTPTypes
import JSON
import KakaoSandbox
import Testing

/// The sandbox's calls to the push server: Link callbacks, webhooks and failure reports.
@Suite(.timeLimit(.minutes(1))) struct CallbackTests {
    private static let callback = "/kakao/link/callback"

    @Test(
        "A shared message causes one callback, with Kakao's headers and both custom and Kakao's arguments",
        arguments: LinkShare.Method.allCases
    )
    func share(method: LinkShare.Method) async throws {
        try await withReceiver(path: Self.callback) { server in
            try await withSandbox { kakao in
                kakao.sandbox.sendCallbacks(to: server.url)
                let share: JSONValue = [
                    "method": .string(method.rawValue), "chat_type": "DirectChat", "hash_chat_id": "hash",
                    "template_id": 9_223_372_036_854_775_807, "resource_id": "Rvy1",
                    "args": ["product": "1 & 한글", "n": 5],
                ]
                let answer = try await kakao.control(.post, "/sandbox/link/share", share)
                #expect(answer.json == ["sent": true, "status": 200, "resource_id": "Rvy1", "reason": nil])

                let received = try #require(await server.next())
                #expect(received.headerFields[.authorization] == "KakaoAK sandbox-admin-key")
                #expect(received.headerFields[.userAgent] == "KakaoOpenAPI/1.0")
                #expect(received.headerFields[try #require(HTTPField.Name("X-Kakao-Resource-ID"))] == "Rvy1")
                let expected = [
                    "CHAT_TYPE": "DirectChat", "HASH_CHAT_ID": "hash", "TEMPLATE_ID": "9223372036854775807",
                    "product": "1 & 한글", "n": "5",
                ]
                switch method {
                case .get:
                    #expect(received.method == .get)
                    #expect(received.fields == expected)
                case .postForm, .postQuery:
                    #expect(received.method == .post)
                    #expect(received.fields == expected)
                case .postJSON:
                    #expect(received.headerFields[.contentType] == "application/json;charset=UTF-8")
                    let json: JSONValue = [
                        "CHAT_TYPE": "DirectChat", "HASH_CHAT_ID": "hash", "TEMPLATE_ID": 9_223_372_036_854_775_807,
                        "product": "1 & 한글", "n": 5,
                    ]
                    #expect(try JSONValue(parsing: received.body) == json)
                }
                #expect(kakao.sandbox.stats.linkCallbacks.sent == 1)
            }
        }
    }

    @Test("The push server's address can be set later, and has to be a base URL")
    func address() async throws {
        try await withReceiver(path: Self.callback) { server in
            try await withSandbox { kakao in
                let share: JSONValue = ["args": ["a": "b"]]
                #expect(try await kakao.control(.post, "/sandbox/link/share", share).json?["sent"] == false)
                let set = try await kakao.control(.post, "/sandbox/callback-url", ["url": .string(server.url)])
                #expect(set.status == 204)
                #expect(try await kakao.control(.post, "/sandbox/link/share", share).json?["status"] == 200)
                #expect(await server.next()?.fields["a"] == "b")
                for wrong in [[:], ["url": "127.0.0.1:8080"]] as [JSONValue] {
                    let refused = try await kakao.control(.post, "/sandbox/callback-url", wrong)
                    #expect(refused.status == 400)
                    #expect(refused.json?["field"] == "url")
                }
            }
        }
    }

    @Test("A call can have anything in place of its parameters, as a changed app can cause")
    func raw() async throws {
        let raw = "CHAT_TYPE=a&CHAT_TYPE=b&c=%FF&d=100%"
        try await withReceiver(path: Self.callback) { server in
            try await withSandbox { kakao in
                kakao.sandbox.sendCallbacks(to: server.url)
                for method in LinkShare.Method.allCases {
                    let share: JSONValue = ["method": .string(method.rawValue), "raw": .string(raw)]
                    let answer = try await kakao.control(.post, "/sandbox/link/share", share)
                    #expect(answer.json?["status"] == 200)
                    let received = try #require(await server.next())
                    let isQuery = method == .get || method == .postQuery
                    #expect((received.query == raw) == isQuery)
                    #expect((String(decoding: received.body, as: UTF8.self) == raw) == !isQuery)
                }
            }
        }
    }

    @Test("An unlink is sent once, with the Admin key and the app id", arguments: ["GET", "POST"])
    func unlink(method: String) async throws {
        try await withReceiver(path: "/kakao/unlink") { server in
            try await withSandbox { kakao in
                kakao.sandbox.sendCallbacks(to: server.url)
                let notice: JSONValue = [
                    "user_id": 9_223_372_036_854_775_807, "method": .string(method), "referrer_type": "새 이유",
                ]
                let answer = try await kakao.control(.post, "/sandbox/unlink", notice)
                #expect(answer.json == ["sent": true, "status": 200, "reason": nil])
                let received = try #require(await server.next())
                #expect(received.method.rawValue == method)
                #expect(received.headerFields[.authorization] == "KakaoAK sandbox-admin-key")
                let expected = [
                    "app_id": "123456", "user_id": "9223372036854775807", "referrer_type": "새 이유",
                ]
                #expect(received.fields == expected)
            }
        }
    }

    @Test("A change of an account is sent once, as a security event token with a published key")
    func accountEvent() async throws {
        try await withReceiver(status: .accepted, path: "/kakao/account-events") { server in
            try await withSandbox { kakao in
                kakao.sandbox.sendCallbacks(to: server.url)
                let type = "https://schemas.openid.net/secevent/risc/event-type/account-disabled"
                let event: JSONValue = [
                    "user_id": 9_223_372_036_854_775_807, "type": .string(type), "reason": "hijacking", "jti": "1",
                ]
                let answer = try await kakao.control(.post, "/sandbox/account-events", event)
                #expect(answer.json == ["sent": true, "status": 202, "jti": "1", "err": nil, "reason": nil])
                let received = try #require(await server.next())
                #expect(received.method == .post)
                #expect(received.headerFields[.authorization] == nil)
                #expect(received.headerFields[.contentType] == "application/secevent+jwt")
                let (header, claims, _) = try parts(of: received.body)
                let published = try await kakao.sandbox.publishedKeys()
                #expect(header["typ"] == "secevent+jwt")
                #expect(header["alg"] == "RS256")
                #expect(header["kid"] == published["keys"]?[0]?["kid"])
                #expect(claims["iss"]?.string == kakao.sandbox.url)
                #expect(claims["aud"] == "sandbox-rest-api-key")
                #expect(claims["sub"] == "9223372036854775807")
                #expect(claims["jti"] == "1")
                #expect(claims["exp"] == nil)
                #expect(claims["events"]?[type]?["reason"] == "hijacking")
                #expect(claims["events"]?[type]?["subject"]?["sub"] == "9223372036854775807")
            }
        }
    }

    @Test("An event can be faulty: for another app, with a reused id, with a forged signature")
    func accountEventFaults() async throws {
        try await withReceiver(status: .badRequest, path: "/kakao/account-events") { server in
            try await withSandbox { kakao in
                kakao.sandbox.sendCallbacks(to: server.url)
                let right = try await kakao.control(.post, "/sandbox/account-events", ["user_id": 1, "jti": "1"])
                #expect(right.json?["status"] == 400)
                let forged: JSONValue = ["user_id": 1, "jti": "1", "app_key": "another", "forged": true]
                #expect(try await kakao.control(.post, "/sandbox/account-events", forged).json?["jti"] == "1")
                let bodies = [try #require(await server.next()).body, try #require(await server.next()).body]
                let tokens = try bodies.map { try parts(of: $0) }
                #expect(tokens.map { $0.claims["jti"] } == ["1", "1"])
                #expect(tokens.map { $0.claims["aud"] } == ["sandbox-rest-api-key", "another"])
                // The forged token has the same `kid` and a signature of the same length.
                #expect(tokens[0].header == tokens[1].header)
                #expect(tokens[1].signature == tokens[0].signature)

                let wrong: [(JSONValue, String)] = [
                    ([:], "user_id"), (["user_id": 0], "user_id"), (["user_id": 1, "forged": "x"], "forged"),
                    (["user_id": 1, "event": "x"], "event"),
                ]
                for (event, field) in wrong {
                    let answer = try await kakao.control(.post, "/sandbox/account-events", event)
                    #expect(answer.status == 400)
                    #expect(answer.json?["field"]?.string == field)
                }
            }
        }
    }

    /// Returns the header and claims of a token, and the length of its signature.
    private func parts(of body: [UInt8]) throws -> (header: JSONValue, claims: JSONValue, signature: Int) {
        let parts = body.split(separator: UInt8(ascii: "."))
        func json(_ part: ArraySlice<UInt8>) throws -> JSONValue {
            var text = String(decoding: part, as: UTF8.self).replacing("-", with: "+").replacing("_", with: "/")
            while text.utf8.count % 4 != 0 { text += "=" }
            return try JSONValue(parsing: Array(try #require(Data(base64Encoded: text))))
        }
        return (try json(parts[0]), try json(parts[1]), parts[2].count)
    }

    @Test("An invalid unlink is rejected; without a URL of the push server, none is sent")
    func unlinkNowhere() async throws {
        try await withSandbox { kakao in
            let nowhere = try await kakao.control(.post, "/sandbox/unlink", ["user_id": 1])
            #expect(nowhere.json?["sent"] == false)
            for body: JSONValue in [[:], ["user_id": 0], ["user_id": 1, "method": "PUT"], ["user_id": 1, "why": "x"]] {
                #expect(try await kakao.control(.post, "/sandbox/unlink", body).status == 400)
            }
        }
    }

    @Test("A share may specify the URL of the push server")
    func callbackURL() async throws {
        try await withReceiver(path: Self.callback) { server in
            try await withSandbox { kakao in
                kakao.sandbox.sendCallbacks(to: "http://127.0.0.1:1")
                let share: JSONValue = ["args": ["a": "b"], "callback_url": .string(server.url)]
                let answer = try await kakao.control(.post, "/sandbox/link/share", share).json
                #expect(answer?["status"] == 200)
                #expect(try #require(await server.next()).fields["a"] == "b")
            }
        }
    }

    @Test("Without arguments no callback is sent, and the response says so")
    func noArguments() async throws {
        try await withReceiver(path: Self.callback) { server in
            try await withSandbox { kakao in
                kakao.sandbox.sendCallbacks(to: server.url)
                for share: JSONValue in [[:], ["args": [:]]] {
                    let answer = try await kakao.control(.post, "/sandbox/link/share", share).json
                    #expect(answer?["sent"] == false)
                    #expect(answer?["reason"]?.string?.isEmpty == false)
                }
                #expect(kakao.sandbox.stats.linkCallbacks.sent == 0)
            }
        }
    }

    @Test("A callback that the server rejects is reported and not retried")
    func refused() async throws {
        try await withReceiver(status: .internalServerError, path: Self.callback) { server in
            try await withSandbox { kakao in
                kakao.sandbox.sendCallbacks(to: server.url + "/")
                var share = LinkShare()
                share.arguments = ["a": "b"]
                let outcome = await kakao.sandbox.share(share)
                #expect(outcome.status == 500)
                #expect(outcome.id?.count == 24)
                #expect(kakao.sandbox.stats.linkCallbacks.sent == 1)
                #expect(kakao.sandbox.stats.linkCallbacks.accepted == 0)
            }
        }
    }

    @Test("A callback that reaches no server is reported without a status")
    func unreachable() async throws {
        try await withSandbox { kakao in
            var share = LinkShare()
            share.arguments = ["a": "b"]
            #expect(await kakao.sandbox.share(share).isSent == false)
            // No process listens on port 1 of the loopback address.
            kakao.sandbox.sendCallbacks(to: "http://127.0.0.1:1")
            let outcome = await kakao.sandbox.share(share)
            #expect(outcome.isSent)
            #expect(outcome.status == nil)
            #expect(outcome.reason?.isEmpty == false)
        }
    }

    @Test(
        "An invalid share is rejected with the name of the invalid field",
        arguments: [
            (["method": "POST"], "method"), (["chat_type": "Chat"], "chat_type"), (["args": []], "args"),
            (["args": ["CHAT_TYPE": "x"]], "args"), (["resource_id": "a\r\nb"], "resource_id"),
            (["template_id": "x"], "template_id"), (["arguments": [:]], "arguments"),
        ] as [(JSONValue, String)]
    )
    func badShare(share: JSONValue, field: String) async throws {
        try await withSandbox { kakao in
            let response = try await kakao.control(.post, "/sandbox/link/share", share)
            #expect(response.status == 400)
            #expect(response.json?["field"]?.string == field)
        }
    }

    @Test(
        "A send to a failing token is accepted, and its failure is reported to return_url as a form",
        arguments: [("v1", "gcm"), ("v2", "fcm"), ("v2", "apns")]
    )
    func feedback(version: String, type: String) async throws {
        try await withReceiver(path: "/feedback/secret") { server in
            try await withSandbox { kakao in
                _ = try await kakao.register(.max, "good", type: type, version: version)
                _ = try await kakao.register(.max, "bad:+ &", type: type, version: version)
                let told = try await kakao.control(.post, "/sandbox/tokens/fail", ["push_token": "bad:+ &"])
                #expect(told.status == 204)
                let part: JSONValue = ["return_url": .string(server.url + "/feedback/secret")]
                let message: JSONValue = .object(["for_\(type)": part])
                let sent = try await kakao.send("[9223372036854775807]", message, version: version)
                #expect(sent.status == 200)

                let report = try #require(await server.next())
                #expect(report.method == .post)
                #expect(report.headerFields[.contentType] == "application/x-www-form-urlencoded")
                #expect(Set(report.fields.keys) == ["userId", "pushToken", "date"])
                #expect(report.fields["userId"] == "9223372036854775807")
                #expect(report.fields["pushToken"] == "bad:+ &")
                let deliveries = kakao.sandbox.deliveries()
                #expect(deliveries.map(\.outcome) == [.delivered, .failed])
                // The date has milliseconds and equals the time of the delivery.
                #expect(report.fields["date"] == deliveries.last.map { String($0.deliveredAt) })
            }
        }
    }

    @Test(
        "A failure without return_url, or for APNS in v1, is not reported; a restored token gets deliveries again"
    )
    func noFeedback() async throws {
        try await withSandbox { kakao in
            _ = try await kakao.register(1, "android")
            _ = try await kakao.register(1, "iphone", type: "apns")
            kakao.sandbox.failToken("android")
            kakao.sandbox.failToken("iphone")
            let message: JSONValue = ["for_gcm": [:], "for_apns": ["return_url": "http://127.0.0.1:1/"]]
            _ = try await kakao.send("[1]", message)
            #expect(kakao.sandbox.deliveries().map(\.outcome) == [.failed, .failed])
            let feedback = kakao.sandbox.stats.feedback
            #expect([feedback.pending, feedback.accepted, feedback.refused, feedback.dropped] == [0, 0, 0, 0])
            #expect(try await kakao.control(.delete, "/sandbox/tokens/fail").status == 204)
            _ = try await kakao.send("[1]", message)
            #expect(kakao.sandbox.deliveries(after: 2).map(\.outcome) == [.delivered, .delivered])
        }
    }
}
