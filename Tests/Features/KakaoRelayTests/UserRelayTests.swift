import Endpoints
import HTTPClient
import HTTPTypes
import Identity
import JSON
import KakaoAPI
import KakaoSandbox
import Net
import Server
import ServiceTesting
import TestSupport
import Testing

/// The relayed calls about users.
@Suite(.timeLimit(.minutes(5))) struct UserRelayTests {
    private static let user: KeyValuePairs = ["target_id_type": "user_id", "target_id": "7"]

    private static func app(_ service: TestService) throws -> TestClient {
        service.api.with("Bearer \(try #require(service.kakao.sandbox.accessToken(of: 7)))")
    }

    @Test("A user calls with the own token, an operator with the Admin key for the user in target_id")
    func credentials() async throws {
        try await withKakaoLogin { service in
            let app = try Self.app(service)
            let keys: KeyValuePairs = ["property_keys": #"["kakao_account.email"]"#, "secure_resource": "true"]
            for answer in [try await app.get("/v2/user/me", keys), try await app.post("/v2/user/me", form: keys)] {
                #expect(answer.status == 200)
                #expect(answer.json?["id"] == 7)
                #expect(answer.json?["kakao_account"]?["email"] == "user7@example.com")
                #expect(answer.json?["properties"] == nil)
            }
            #expect(try await app.get("/v2/user/me", ["target_id": "8"]).problem == "another-user")
            let operated = try await service.api.get("/v2/user/me", ["target_id_type": "user_id", "target_id": "8"])
            #expect(operated.json?["id"] == 8)
            #expect(try await service.api.get("/v2/user/me").field == "target_id")
            // Kakao says that the user of the Admin key's call is not linked.
            try service.kakao.sandbox.setUser(8, ["linked": false])
            let unlinked = try await service.api.get("/v2/user/me", ["target_id_type": "user_id", "target_id": "8"])
            #expect(unlinked.status == 400)
            #expect(unlinked.json?["code"] == -101)
        }
    }

    @Test("Calls of the whole app are for operators, and have no target")
    func appCalls() async throws {
        try await withKakaoLogin { service in
            let app = try Self.app(service)
            let query: KeyValuePairs = ["target_ids": "[7,8]", "target_id_type": "user_id"]
            let users = try await service.api.get("/v2/app/users", query)
            #expect(users.json?.array?.map { $0["id"] } == [7, 8])
            // The token is valid: after a 401, an SDK would log its user out.
            #expect(try await app.get("/v2/app/users", query).status == 403)
            #expect(try await app.get("/v1/user/ids").status == 403)
            let store = OperatorKeyStore(pool: service.database.pool)
            for (scope, status) in [(Scope.accounts, 200), (.talk, 403), (.send, 403)] {
                let key = try await store.create(name: scope.rawValue, scopes: [scope], expiresAt: nil)
                #expect(try await service.api.with("Bearer \(key)").get("/v1/user/ids").status == status)
            }
        }
    }

    @Test("Rules between parameters are checked here")
    func rules() async throws {
        try await withKakaoLogin { service in
            let many = Array(1...21).description
            let users = try await service.api.get(
                "/v2/app/users",
                ["target_ids": many, "target_id_type": "user_id", "property_keys": #"["properties.nickname"]"#]
            )
            #expect(users.field == "target_ids")
            #expect(users.json?["allowed"] == "an array of 1 to 20 elements if property_keys is given")
            for text in ["[", "{}", "kakao_account.email"] {
                let keys: KeyValuePairs = ["target_id_type": "user_id", "target_id": "7", "property_keys": text]
                let answer = try await service.api.get("/v2/user/me", keys)
                #expect(answer.status == 400 && answer.field == "property_keys")
                let allowed = try #require(answer.json?["allowed"]?.string)
                #expect(allowed.hasPrefix("an array of ") && !allowed.contains("Invalid"), "\(allowed)")
                // Only what begins as an array or an object is JSON with a mistake.
                let reason = text == "[" ? "must be \(allowed). Invalid JSON: " : "must be \(allowed)."
                let detail = answer.json?["detail"]?.string
                #expect(detail?.contains(reason) == true, "\(answer.text)")
                #expect(detail?.contains("Invalid JSON") == (text == "["), "\(answer.text)")
            }
            let both: KeyValuePairs = [
                "address_id": "1", "from_updated_at": "0", "target_id_type": "user_id", "target_id": "7",
            ]
            let addresses = try await service.api.get("/v1/user/shipping_address", both)
            #expect(addresses.field == "address_id")
            let missing = try await service.api.get("/v2/app/users", ["target_ids": "[1]"])
            #expect(missing.field == "target_id_type")
            let properties: KeyValuePairs = ["properties": #"{"age":[]}"#]
            let app = try Self.app(service)
            #expect(try await app.post("/v1/user/update_profile", form: properties).field == "properties")
            for path in ["/v2/app/users", "/v1/user/shipping_address", "/v1/user/update_profile"] {
                #expect(service.kakao.sandbox.stats.requests[path] == nil)
            }
        }
    }

    @Test("The time of a page of addresses may have a fraction, as Kakao's SDK for Flutter sends it")
    func fractions() async throws {
        try await withKakaoLogin { service in
            let app = try Self.app(service)
            for (time, status) in [
                ("0.0", 200), ("1600000000.123", 200), ("1600000000", 200), ("1.", 400), ("-1", 400),
            ] {
                let answer = try await app.get("/v1/user/shipping_address", ["from_updated_at": time])
                #expect(answer.status == status, "\(time): \(answer.text)")
            }
            #expect(service.kakao.sandbox.stats.requests["/v1/user/shipping_address"] == 3)
        }
    }

    @Test("A list of tags may be repeated, and reaches Kakao as one list")
    func tags() async throws {
        try await withKakaoLogin { service in
            let query = "tags=service&tags=marketing&result=app_service_terms&target_id_type=user_id&target_id=7"
            let terms = try await service.api.get("/v2/user/service_terms?\(query)")
            #expect(terms.json?["service_terms"]?.array?.map { $0["tag"] } == ["service", "marketing"])
            #expect(try await service.api.get("/v2/user/scopes?scopes=[]&scopes=[]").field == "scopes")
            let app = try Self.app(service)
            let form = Array("tags=marketing&tags=location".utf8)
            let agreed = try await app.post("/v2/user/upgrade/service_terms", form, type: FormBody.contentType)
            #expect(agreed.json?["agreed_service_terms"]?.array?.count == 2)
            let revoked = try await app.post("/v2/user/revoke/service_terms", json: ["tags": "marketing"])
            #expect(revoked.json?["revoked_service_terms"] == [["tag": "marketing", "agreed": false]])
        }
    }

    @Test("The addresses of other pages lead to this server", arguments: [true, false])
    func pages(hasPublicURL: Bool) async throws {
        let adjust = { (settings: inout Settings) in
            settings.publicURL = hasPublicURL ? .given("https://push.example.com") : nil
        }
        try await withKakaoLogin(adjust) { service in
            for userID in [Int64.max, 1, 2] { try service.kakao.sandbox.setUser(userID, [:]) }
            let url = hasPublicURL ? "https://push.example.com" : ""
            let first = try await service.api.get("/v1/user/ids", ["limit": "2"])
            #expect(first.json?["after_url"]?.string == "\(url)/v1/user/ids?limit=2&order=asc&from_id=\(Int64.max)")
            #expect(first.json?["before_url"] == nil)
            let after = try #require(first.json?["after_url"]?.string)
            let second = try await service.api.get(String(after.dropFirst(url.count)))
            #expect(
                second.text
                    == #"{"elements":[9223372036854775807],"before_url":"\#(url)/v1/user/ids?limit=2&order=asc&from_id=1"}"#
            )
        }
    }

    @Test("Kakao's quota of the list of ids comes back with its code")
    func quota() async throws {
        try await withKakaoLogin { service in
            for _ in 0..<100 { _ = try await service.kakaoIDs() }
            let answer = try await service.api.get("/v1/user/ids")
            #expect(answer.status == 429)
            #expect(answer.json?["code"] == -10)
            var fault = Fault(.status)
            fault.status = 429
            fault.code = -10
            fault.retryAfterSeconds = 30
            service.kakao.sandbox.add(fault)
            #expect(try await service.api.get("/v1/user/ids").headerFields[.retryAfter] == "30")
        }
    }
}

extension TestService {
    /// Lists the users at Kakao itself.
    fileprivate func kakaoIDs() async throws -> HTTPClientResponse {
        try await TestClient(url: kakao.sandbox.url, authorization: "KakaoAK \(Keys.admin)").get("/v1/user/ids")
    }
}
