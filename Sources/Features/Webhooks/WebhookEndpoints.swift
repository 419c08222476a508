import Locking

/// The endpoints of the settings. A reload replaces them.
final class WebhookEndpoints: Sendable {
    private let endpoints: Locked<[WebhookEndpoint]>

    init(_ endpoints: [WebhookEndpoint]) {
        self.endpoints = Locked(endpoints)
    }

    var all: [WebhookEndpoint] { endpoints.withLock { $0 } }
    var isEmpty: Bool { endpoints.withLock(\.isEmpty) }
    subscript(name: String) -> WebhookEndpoint? { endpoints.withLock { $0.first { $0.name == name } } }

    /// Replaces the endpoints. Requests in flight end with the earlier ones.
    func replace(with endpoints: [WebhookEndpoint]) {
        self.endpoints.withLock { $0 = endpoints }
    }
}
