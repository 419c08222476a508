import FoundationEssentials
import Glibc
import TestSupport
import Testing

@testable import Runtime
@testable import Server
@testable import Settings
@testable import Webhooks

/// Tests of the settings of webhooks, and of their signatures.
@Suite struct WebhookSettingsTests {
    private static let secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"

    private static let required = [
        "DATABASE_URL": "postgres://localhost/push", "OPERATOR_KEY": String(repeating: "k", count: 32),
        "KAKAO_ADMIN_KEY": "admin-key",
    ]

    private static func settings(_ webhooks: [String: String]) throws -> Settings {
        try Settings(
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
                == [.pushProposed, .pushDone, .pushHalted, .pushExpired, .pushUnreached, .senderHalted]
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
        #expect(valid.webhooks.url?.shown == url && valid.webhooks.all.map(\.secrets.count) == [1])
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

    /// A list of endpoints as JSON.
    private static func endpoints(_ names: [String], types: String = "push.*") -> String {
        let endpoints = names.map { name in
            #"{"name":"\#(name)","url":"https://b.example.com","secret":"\#(secret)","types":"\#(types)"}"#
        }
        return "[\(endpoints.joined(separator: ","))]"
    }

    @Test("There are the endpoint of the single settings, named default, and those of the list")
    func list() throws {
        #expect(try Self.settings([:]).webhooks.all == [])
        let billing = ["WEBHOOKS_ENDPOINTS": Self.endpoints(["billing"], types: "push.*, user.unlinked")]
        let listed = try #require(try Self.settings(billing).webhooks.all.first)
        #expect(listed.name == "billing" && listed.url.shown == "https://b.example.com")
        #expect(listed.secrets == [WebhookSecret(Self.secret)])
        #expect(
            listed.types.names
                == ["user.unlinked", "push.proposed", "push.done", "push.halted", "push.expired", "push.unreached"]
        )
        let single = ["WEBHOOKS_URL": "https://a.example.com", "WEBHOOKS_SECRET": Self.secret]
        let both = try Self.settings(single.merging(billing) { $1 }).webhooks
        #expect(both.all.map(\.name) == ["default", "billing"] && both.endpoints == [listed])
        #expect(both.all[0].types == WebhookTypes() && both.retentionDays == 30)
        #expect(!"\(both)".contains("MfKQ"))
    }

    @Test("A member of an endpoint comes from the file with its line, and its secrets from files")
    func file() throws {
        let yaml = """
            webhooks:
              endpoints:
                - name: billing
                  url: https://b.example.com/webhooks
                  secret_file: /run/1
                  secret_next_file: /run/2
            """
        func settings(_ yaml: String) throws -> Settings {
            try Settings(environment: Self.required, yaml: yaml, path: "a.yaml") { path in
                guard !path.hasPrefix("a.credentials/") else { throw FileContents.Failure(code: ENOENT) }
                #expect(["/run/1", "/run/2"].contains(path))
                return "\(Self.secret)\n"
            }
        }
        let read = try settings(yaml)
        #expect(read.webhooks.endpoints.map(\.secrets.count) == [2])
        #expect(read.secretFiles == ["/run/1", "/run/2"])
        let error = #expect(throws: SettingsError.self) {
            try settings(yaml.replacing("https://b", with: "http://b"))
        }
        #expect(error?.place == "a.yaml:4")
        #expect(error?.message.hasPrefix("webhooks.endpoints[0].url must be a URL") == true)
    }

    @Test("Names are short, different, and not that of the single settings; there are at most eight endpoints")
    func names() throws {
        let names = (1...8).map { "receiver-\($0)" }
        #expect(try Self.settings(["WEBHOOKS_ENDPOINTS": Self.endpoints(names)]).webhooks.all.map(\.name) == names)
        let single = ["WEBHOOKS_URL": "https://a.example.com", "WEBHOOKS_SECRET": Self.secret]
        let invalid: [(names: [String], single: [String: String], message: String)] = [
            (names, single, "webhooks.endpoints has too many endpoints: at most 8"),
            (names + ["another"], [:], "webhooks.endpoints has too many endpoints: at most 8"),
            (["a", "b", "a"], [:], "webhooks.endpoints must have different names: a is given twice."),
            (["a", "default"], [:], "webhooks.endpoints[1].name must"),
            (["Billing"], [:], "webhooks.endpoints[0].name must"), (["a.b"], [:], "webhooks.endpoints[0].name must"),
            ([String(repeating: "a", count: 33)], [:], "webhooks.endpoints[0].name must"),
            ([""], [:], "webhooks.endpoints[0].name is required"),
        ]
        for (names, single, message) in invalid {
            let error = #expect(throws: SettingsError.self) {
                try Self.settings(single.merging(["WEBHOOKS_ENDPOINTS": Self.endpoints(names)]) { $1 })
            }
            #expect(error?.place == "WEBHOOKS_ENDPOINTS in the environment")
            #expect(error?.message.hasPrefix(message) == true, "\(String(describing: error))")
        }
    }
}
