import Accounts
import Callbacks
import Devices
import Endpoints
import KakaoRelay
import Keys
import Messages
import Pushes
import ServiceKit
import Settings
import Sharing
import Status
import Webhooks

/// All features, in the order of the OpenAPI document.
let features = [
    ListedFeature(DeviceFeature.self, \.devices),
    ListedFeature(PushFeature.self, \.pushes),
    ListedFeature(SharingFeature.self, \.sharing),
    ListedFeature(AccountFeature.self, \.accounts),
    ListedFeature(RelayFeature.self, \.relay),
    ListedFeature(MessageFeature.self, \.messages),
    ListedFeature(CallbackFeature.self, \.callbacks),
    ListedFeature(IdentityFeature.self),
    ListedFeature(OperationsFeature.self, \.audit),
    // The last one: the others register what it delivers.
    ListedFeature(WebhookFeature.self, \.webhooks),
]

/// A feature, and where its settings are.
struct ListedFeature: Sendable {
    let collections: [any RouteCollection.Type]
    let settings: [Setting<Settings>]
    /// Checks the rules between the feature's settings: ``SettingsGroup/validate(_:_:)``.
    let validate: @Sendable (SettingsReader, inout Settings) throws -> Void
    /// Creates the feature of a server.
    let make: @Sendable (ServerContext, Settings) -> any Feature
    /// Makes a feature that `make` created use reloaded settings.
    let reload: @Sendable (any Feature, Settings) -> Void

    init<F: Feature>(_ feature: F.Type, _ path: any WritableKeyPath<Settings, F.Configuration> & Sendable) {
        collections = F.collections
        settings = F.Configuration.settings.map { $0.of(path) }
        validate = { reader, settings in try settings[keyPath: path].validate(reader, settings.kakao) }
        make = { F($0, $1[keyPath: path]) }
        reload = { ($0 as? F)?.use($1[keyPath: path]) }
    }

    init<F: Feature>(_ feature: F.Type) where F.Configuration == NoSettings {
        collections = F.collections
        settings = []
        validate = { _, _ in }
        make = { server, _ in F(server, NoSettings()) }
        reload = { _, _ in }
    }
}

/// All operations of the service.
let routeCollections = features.flatMap { $0.collections }
