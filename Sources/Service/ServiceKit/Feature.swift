package import Endpoints
package import Postgres
package import Runtime
package import ServiceLifecycle
package import Settings

/// A part of the service: its operations, its settings, and its work in the background. There is one instance for each
/// server. `makeFeatures` of the server makes all of them, and gives each the features that it uses.
package protocol Feature: Sendable {
    /// The settings of the feature; ``NoSettings`` if it has none.
    associatedtype Configuration: SettingsGroup = NoSettings

    /// The operations, whatever the settings are.
    static var collections: [any RouteCollection.Type] { get }

    /// Adds the operations of a loop.
    func addRoutes(to routes: inout Routes, _ loop: LoopServices)

    /// Prepares the tables of the feature. Called after the migrations and before the first request; called again if the database
    /// is unavailable meanwhile.
    func prepare() async throws

    /// Makes the work in the background, once. It starts when the database is ready, and stops with the last requests.
    func makeServices() -> [any Service]

    /// The cleanup of the feature's tables, which runs as the work in the background does.
    var retentions: [Retention] { get }

    /// Applies the settings after a reload. Only those that can be reloaded have changed.
    func apply(_ settings: Configuration)

    /// The data of the feature's webhooks.
    var webhookData: [WebhookData] { get }

    /// The channels of PostgreSQL on which other servers notify the feature.
    var channels: [String] { get }

    /// Receives a notification, or a new connection to PostgreSQL, before which notifications may have been lost.
    func receive(_ event: PostgresListener.Event)
}

extension Feature {
    package func prepare() async throws {}
    package func makeServices() -> [any Service] { [] }
    package var retentions: [Retention] { [] }
    package func apply(_ settings: Configuration) {}
    package var webhookData: [WebhookData] { [] }
    package var channels: [String] { [] }
    package func receive(_ event: PostgresListener.Event) {}
}

/// The settings of a feature that has none.
package struct NoSettings: SettingsGroup {
    package static let settings: [Setting<NoSettings>] = []

    package init() {}
}
