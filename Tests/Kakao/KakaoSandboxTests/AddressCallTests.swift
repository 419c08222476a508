import HTTPClient
import HTTPTypes
import JSON
import KakaoAPI
import KakaoSandbox
import Testing

/// The list of Kakao's addresses, and its control.
@Suite struct AddressCallTests {
    @Test("Kakao's addresses are this machine and private networks, until a test sets others in any form")
    func list() async throws {
        try await withSandbox { fixture in
            let initial = try await fixture.kakao.call(RetrieveAddresses())
            #expect(initial.inbound?.first?["ips"]?.array?.contains("127.0.0.0/8") == true)
            #expect(initial.outbound?.count == 1)
            let changed = try await fixture.control(
                .post,
                "/sandbox/addresses",
                ["inbound": ["198.51.100.7", ["type": "scrap"]], "updated_date": "2026-12-01"]
            )
            #expect(changed.status == 200)
            #expect(changed.json?["inbound"] == ["198.51.100.7", ["type": "scrap"]])
            let list = try await fixture.kakao.call(RetrieveAddresses())
            #expect(list.inbound == ["198.51.100.7", ["type": "scrap"]])
            #expect(list.outbound == initial.outbound)
            #expect(list.updatedDate == "2026-12-01")
            #expect(try await fixture.control(.delete, "/sandbox/addresses").status == 204)
            #expect(try await fixture.kakao.call(RetrieveAddresses()).inbound == initial.inbound)
        }
    }

    @Test(
        "rule_type selects one direction, an unknown one is refused, and so are a control's unknown or invalid members"
    )
    func parameters() async throws {
        try await withSandbox { fixture in
            let inbound = try await fixture.kakao.call(RetrieveAddresses(direction: .inbound))
            #expect(inbound.inbound != nil && inbound.outbound == nil)
            let outbound = try await fixture.kakao.call(RetrieveAddresses(direction: .outbound))
            #expect(outbound.inbound == nil && outbound.outbound != nil)
            let unknown = try await fixture.call("/v1/system/ips", ["rule_type": "both"], method: .get)
            #expect(unknown.status == 400 && unknown.code == -2)
            #expect(try await fixture.call("/v1/system/ips", method: .get, authorization: nil).status == 401)
            for body: JSONValue in [["inbound": "127.0.0.1"], ["address": []], ["updated_date": 7]] {
                #expect(try await fixture.control(.post, "/sandbox/addresses", body).status == 400)
            }
        }
    }
}
