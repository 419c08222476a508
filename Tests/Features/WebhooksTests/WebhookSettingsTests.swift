import FoundationEssentials
import TestSupport
import Testing

@testable import Runtime
@testable import Server
@testable import Settings
@testable import Webhooks

/// Tests of the settings of webhooks, and of their signatures.
@Suite struct WebhookSettingsTests {
    private static let secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"

    private static func settings(_ webhooks: [String: String]) throws -> Settings {
        let required = [
            "DATABASE_URL": "postgres://localhost/push", "OPERATOR_KEY": String(repeating: "k", count: 32),
            "KAKAO_ADMIN_KEY": "admin-key",
        ]
        return try Settings(
            environment: required.merging(webhooks) { $1 },
            yaml: nil,
            path: "",
            readFile: { _ in "" }
        )
    }

    @Test("The signature is that of the example of Standard Webhooks")
    func signature() throws {
        let secret = try #require(WebhookSecret(Self.secret))
        let content = Array(#"msg_p5jXN8AQM9LWM0D4loKWxJek.1614265330.{"test": 2432232314}"#.utf8)
        #expect(secret.signature(of: content) == "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=")
        #expect("\(secret)" == "***" && String(reflecting: secret) == "***")
    }

    @Test("A secret is whsec_ and 24 to 64 bytes in Base64")
    func secrets() {
        for (count, isValid) in [(23, false), (24, true), (64, true), (65, false)] {
            let key = Data(repeating: 7, count: count).base64EncodedString()
            #expect((WebhookSecret("whsec_\(key)") != nil) == isValid)
            #expect(WebhookSecret(key) == nil)
        }
        #expect(WebhookSecret("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaS!") == nil)
    }

    @Test("The endpoint is https, or http on this machine, and shown without its query")
    func urls() {
        for url in [
            "https://backend.example.com/hooks?token=secret", "HTTPS://b.example.com", "http://127.0.0.1:9090/webhooks",
            "http://127.1.2.3", "http://localhost/hooks", "http://[::1]:8080/hooks",
        ] {
            #expect(WebhookURL(url) != nil, "\(url)")
        }
        for url in [
            "http://backend.example.com/hooks", "http://127.0.0.1.example.com", "http://localhost.example.com",
            "http://127.0.0.1@example.com/", "https://user:password@example.com/", "https://", "ftp://127.0.0.1/",
            "http://[::1].example.com/", "http://[::2]/", "http://127.0.0", "https://example.com/a b", "",
            "http://localhost\\@example.com/", "https://example.com\\a",
        ] {
            #expect(WebhookURL(url) == nil, "\(url)")
        }
        #expect(
            WebhookURL("https://backend.example.com/hooks?token=secret")?.shown == "https://backend.example.com/hooks"
        )
    }

    @Test("Types are chosen by name or by prefix; an unknown one is rejected")
    func types() throws {
        let types = try #require(WebhookTypes(["push.*", "sender.halted"]))
        #expect(
            WebhookType.allCases.filter(types.contains)
                == [.pushProposed, .pushDone, .pushHalted, .pushExpired, .senderHalted]
        )
        #expect(WebhookTypes().contains(.deviceWithdrawn))
        for pattern in ["push", "push.*.done", "*", "pushes.*", "webhook.test"] {
            #expect(WebhookTypes([pattern]) == nil, "\(pattern)")
        }
    }

    @Test("An endpoint needs a secret, and the settings name what is wrong without the secret's value")
    func validation() throws {
        let url = "https://backend.example.com/webhooks"
        let valid = try Self.settings([
            "WEBHOOKS_URL": url, "WEBHOOKS_SECRET": Self.secret, "WEBHOOKS_TYPES": "push.*, user.unlinked",
        ])
        #expect(valid.webhooks.url?.shown == url && valid.webhooks.secrets.count == 1)
        let invalid: [(String, [String: String])] = [
            ("webhooks.secret", ["WEBHOOKS_URL": url]),
            ("webhooks.url", ["WEBHOOKS_SECRET": Self.secret]),
            ("webhooks.url", ["WEBHOOKS_URL": "http://backend.example.com", "WEBHOOKS_SECRET": Self.secret]),
            ("webhooks.secret", ["WEBHOOKS_URL": url, "WEBHOOKS_SECRET": "whsec_dG9vLXNob3J0"]),
            ("webhooks.secret_next", ["WEBHOOKS_SECRET_NEXT": Self.secret]),
            (
                "webhooks.types",
                ["WEBHOOKS_URL": url, "WEBHOOKS_SECRET": Self.secret, "WEBHOOKS_TYPES": "push.*, unknown.*"]
            ),
        ]
        for (name, values) in invalid {
            let error = #expect(throws: SettingsError.self) { try Self.settings(values) }
            #expect(
                error.map { "\($0)".lowercased().replacing("_", with: ".").contains(name.replacing("_", with: ".")) }
                    == true
            )
            #expect(error.map { "\($0)".contains("dG9v") } == false)
        }
    }

    @Test("A webhook's id says where its event is")
    func ids() throws {
        let source = WebhookSource("pushes", [.pushDone], key: .uuid) { _, _ in [] }
        let position = WebhookPosition(xid: "7341", key: "01926f3e-7a5b-7c3d-9e1f-0a2b3c4d5e6f")
        let id = WebhookID(source, position)
        #expect(id.text == "msg_pushes_01926f3e-7a5b-7c3d-9e1f-0a2b3c4d5e6f_7341")
        let parsed = try #require(WebhookID(id.text))
        #expect(parsed.source == "pushes" && parsed.position == position)
        for text in [
            "", "msg", "msg_pushes_1", "msg_pushes_1_x", "msg_pushes_1_2_3", "evt_pushes_1_2", "msg_pushes_1_-2",
        ] {
            #expect(WebhookID(text) == nil, "\(text)")
        }
    }
}
