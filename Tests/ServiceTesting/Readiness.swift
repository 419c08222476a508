import HTTPClient
import JSON
import TestSupport
package import Testing

extension TestClient {
    /// Waits until requests may be sent to the server. A readiness check fails if the database takes longer than a
    /// second, which happens on a busy machine.
    package func waitUntilReady(sourceLocation: SourceLocation = #_sourceLocation) async throws {
        try await eventually("the server is ready", sourceLocation: sourceLocation) {
            try await get("/readyz").status == 200
        }
    }
}

extension HTTPClientResponse {
    /// Whether it is a response of `/readyz` that says ready, or that the database took longer than a second, or a commit
    /// longer than three, which happens on a busy machine.
    package var isReadyOrLate: Bool {
        let database = json?["checks"]?["database"]
        return status == 200 || database == "unreachable" || database == "not_committing"
    }
}

/// Expects the status and the readiness of a service while Kakao rejects the Admin key.
///
/// The status has the reason and the remedy. Readiness, which needs no key, has neither and stays true, or a load
/// balancer would drop every server.
package func expectHalted(
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
        #expect(ready.isReadyOrLate, sourceLocation: sourceLocation)
        #expect(!ready.text.contains(words), sourceLocation: sourceLocation)
        return ready.status == 200 && ready.json?["checks"]?["sender"] == "halted"
    }
}
