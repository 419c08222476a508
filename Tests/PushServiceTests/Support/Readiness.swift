import HTTPClient
import JSON
import TestSupport
import Testing

/// Expects the status and the readiness of a service while Kakao rejects the Admin key.
///
/// The status has the reason and the remedy. Readiness, which needs no key, has neither and stays true, or a load
/// balancer would drop every server.
func expectHalted(
    _ service: TestService,
    _ words: String,
    sourceLocation: SourceLocation = #_sourceLocation
) async throws {
    let status = try await service.api.get("/v1/status")
    #expect(status.status == 200, sourceLocation: sourceLocation)
    let sender = status.json?["sender"]
    #expect(sender?["state"] == "halted", sourceLocation: sourceLocation)
    #expect(sender?["reason"]?.string?.contains(words) == true, sourceLocation: sourceLocation)
    #expect(sender?["remedy"]?.string?.contains("kakao.admin_key") == true, sourceLocation: sourceLocation)
    #expect(status.json?["kakao"]?["state"] == "refusing", sourceLocation: sourceLocation)
    // A readiness result is cached for a second.
    try await eventually("readiness shows the sender", sourceLocation: sourceLocation) {
        let ready = try await service.api.get("/readyz")
        #expect(ready.status == 200, sourceLocation: sourceLocation)
        #expect(!ready.text.contains(words), sourceLocation: sourceLocation)
        return ready.json?["checks"]?["sender"] == "halted"
    }
}
