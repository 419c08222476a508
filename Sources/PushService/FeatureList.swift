internal import Callbacks
internal import Devices
internal import Operations
internal import Pushes
internal import Relay
package import ServiceKit

/// All features, in the order of the documents.
let features = [
    ListedFeature(DeviceFeature.self, \.devices),
    ListedFeature(PushFeature.self, \.pushes),
    ListedFeature(RelayFeature.self),
    ListedFeature(CallbackFeature.self, \.callbacks),
    ListedFeature(IdentityFeature.self),
    ListedFeature(OperationsFeature.self),
]

/// A feature, and where its settings are.
struct ListedFeature: Sendable {
    let collections: [any RouteCollection.Type]
    let settings: [Setting<Settings>]
    /// Creates the feature of a server.
    let make: @Sendable (ServerContext, Settings) -> any Feature

    init<F: Feature>(_ feature: F.Type, _ path: any WritableKeyPath<Settings, F.Configuration> & Sendable) {
        collections = F.collections
        settings = F.Configuration.settings.map { $0.of(path) }
        make = { F($0, $1[keyPath: path]) }
    }

    init<F: Feature>(_ feature: F.Type) where F.Configuration == NoSettings {
        collections = F.collections
        settings = []
        make = { server, _ in F(server, NoSettings()) }
    }
}

/// All operations of the service.
package let routeCollections = features.flatMap { $0.collections }

extension OpenAPIDocument {
    /// The document of all operations of the service, whatever a server's settings are.
    package static let service = OpenAPIDocument(
        title: "kakao-push-server",
        version: ServerVersion.current,
        description: """
            A backend between a company's apps and Kakao. Errors are problems (RFC 9457) with Kakao's `code` and `msg`. \
            Times are RFC 3339 in UTC. User ids are integers or their decimal texts in requests, and texts in responses. \
            Each response has an `X-Request-Id`. Requests that are malformed, too slow or too large on the level of HTTP \
            are answered with 400, 408, 413, 414, 417, 431, 501 or 505.
            """,
        routeCollections
    )
}
