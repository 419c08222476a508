internal import Postgres
internal import ServiceKit
internal import ServiceLifecycle

/// A part of the service: its operations, and its work in the background. There is one instance for each server.
protocol Feature: Sendable {
    /// The operations, whatever the settings are.
    static var collections: [any RouteCollection.Type] { get }

    /// Creates the feature of a server.
    init(_ server: ServerContext)

    /// Adds the operations of a loop.
    func addRoutes(to routes: inout Routes, _ loop: LoopServices)

    /// Makes the work in the background, once. It starts when the database is ready, and stops with the last requests.
    func makeServices() -> [any Service]

    /// The channels of PostgreSQL on which other servers notify the feature.
    var channels: [String] { get }

    /// Receives a notification, or a new connection to PostgreSQL, before which notifications may have been lost.
    func receive(_ event: PostgresListener.Event)
}

extension Feature {
    func makeServices() -> [any Service] { [] }
    var channels: [String] { [] }
    func receive(_ event: PostgresListener.Event) {}
}

/// All features, in the order of the OpenAPI document.
let features: [any Feature.Type] = [
    DeviceFeature.self, PushFeature.self, RelayFeature.self, CallbackFeature.self, IdentityFeature.self,
    OperationsFeature.self,
]
