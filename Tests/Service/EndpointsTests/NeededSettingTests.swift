import HTTPClient
import JSON
import ServiceTesting
import Testing

/// Operations that are switched off, because a setting is not set.
@Suite(.timeLimit(.minutes(5))) struct NeededSettingTests {
    private static let sharing = "/v2/api/kakaolink/talk/template"
    private static let image = "/v2/api/talk/message/image"

    @Test("A call of Kakao's that is switched off is answered 403 with Kakao's code, and names the setting")
    func kakaoCalls() async throws {
        try await withSharedService { service in
            let template = #"{"object_type":"text","text":"Hi","link":{"web_url":"https://a.example"}}"#
            let fields: KeyValuePairs = ["link_ver": "4.0", "template_object": template]
            let answers = [
                try await service.api.post("\(Self.sharing)/default", form: fields),
                try await service.api.get("\(Self.sharing)/default", fields),
                try await service.api.get("\(Self.sharing)/validate"),
                try await service.api.post("\(Self.sharing)/scrap"),
                try await service.api.post("\(Self.image)/scrap"),
                try await service.api.post("\(Self.image)/upload"),
                try await service.api.delete("\(Self.image)/delete"),
            ]
            for answer in answers {
                #expect(answer.status == 403)
                #expect(answer.json?["code"] == -3)
                #expect(answer.problem == "not-configured")
                #expect(answer.json?["detail"]?.string?.contains("`sharing.app_key_calls`") == true)
            }
            // Only a caller whom the operation admits gets to know that.
            #expect(try await service.api.with(nil).post("\(Self.sharing)/scrap").status == 401)
        }
    }

    @Test("An operation of this server that is switched off is answered 409, and names the setting")
    func ownOperations() async throws {
        try await withSharedService { service in
            let browser = service.api.with(nil)
            let kakao = service.api.with("KakaoAK \(Keys.admin)")
            let message: JSONValue = ["sender": 1, "to": "me", "template_id": 7]
            let dryRun: JSONValue = ["sender": 1, "to": "me", "template_id": 7, "dry_run": true]
            let answers = [
                (try await browser.get("/login/kakao"), "login.return_urls"),
                (try await browser.get("/login/kakao/callback?code=a&state=b"), "login.return_urls"),
                (try await kakao.post("/kakao/unlink"), "kakao.app_id"),
                (try await browser.post("/kakao/account-events"), "kakao.rest_api_key"),
                // Without accounts, no message can ever be sent.
                (try await service.api.post("/v1/messages", json: message), "accounts.encryption_key"),
                (try await service.api.post("/v1/messages", json: dryRun), "accounts.encryption_key"),
            ]
            for (answer, setting) in answers {
                #expect(answer.status == 409)
                #expect(answer.json?["code"] == -1409)
                #expect(answer.problem == "not-configured")
                #expect(answer.json?["detail"]?.string?.contains("`\(setting)`") == true)
            }
        }
    }
}
