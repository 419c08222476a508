import HTTPClient
import JSON
import ServiceTesting
import TestSupport
import Testing

/// Kakao's calls about its own servers.
@Suite(.timeLimit(.minutes(5))) struct SystemCallTests {
    @Test("Operators get Kakao's addresses as Kakao sends them, without Kakao's key")
    func addresses() async throws {
        try await withSharedService { service in
            let response = try await service.api.get("/v1/system/ips", ["rule_type": "inbound"])
            #expect(response.status == 200)
            #expect(response.json?["inbound"]?[0]?["service"] == "callback")
            #expect(response.json?["outbound"] == nil)
            #expect(try await service.api.get("/v1/system/ips", ["rule_type": "both"]).status == 400)
            #expect(try await service.api.with(nil).get("/v1/system/ips").status == 401)
        }
    }
}
