import Accounts
import Callbacks
import Channels
import Devices
import Endpoints
import KakaoRelay
import Keys
import Messages
import OperatorPage
import Pushes
import ServiceKit
import Settings
import Sharing
import Status
import Webhooks

/// The operations and settings of all features, in the order of the documents.
let featureDeclarations = [
    FeatureDeclaration(DeviceFeature.self, \.devices, shared: DeviceSettings.ofUsers.map { $0.of(\.identity) }),
    FeatureDeclaration(PushFeature.self, \.pushes),
    FeatureDeclaration(SharingFeature.self, \.sharing, shared: SharingSettings.ofCalls.map { $0.of(\.kakao) }),
    FeatureDeclaration(AccountFeature.self, \.accounts),
    FeatureDeclaration(RelayFeature.self, \.relay),
    FeatureDeclaration(MessageFeature.self, \.messages),
    FeatureDeclaration(CallbackFeature.self, \.callbacks),
    FeatureDeclaration(ChannelFeature.self, \.channels),
    FeatureDeclaration(KeyFeature.self),
    FeatureDeclaration(StatusFeature.self, \.audit),
    FeatureDeclaration(WebhookFeature.self, \.webhooks),
    FeatureDeclaration(OperatorPageFeature.self, \.page),
]

/// All operations of the service.
let routeCollections = featureDeclarations.flatMap { $0.collections }

/// Makes the features of a server. Each gets the features that it uses.
///
/// - Parameter sandboxURL: The sandbox of a development server; `nil` for a server of a service.
func makeFeatures(_ server: ServerContext, _ settings: Settings, sandboxURL: String?) -> [any Feature] {
    let devices = DeviceFeature(server, settings.devices, channelTag: settings.channels.tag)
    let pushes = PushFeature(server, settings.pushes)
    let sharing = SharingFeature(server, settings.sharing, userIDArgument: settings.callbacks.userIDArgument)
    let accounts = AccountFeature(server, settings.accounts)
    let messages = MessageFeature(server, settings.messages, accounts: accounts, sharing: sharing)
    let relay = RelayFeature(server, settings.relay, accounts: accounts, messages: messages, sharing: sharing)
    let channels = ChannelFeature(server, settings.channels)
    let callbacks = CallbackFeature(server, settings.callbacks, sharing: sharing)
    let keys = KeyFeature(server)
    let hasPage = settings.page.isEnabled && settings.operatorPort == nil
    let status = StatusFeature(server, settings.audit, hasPage: hasPage)
    let others: [any Feature] = [
        devices, pushes, sharing, accounts, messages, relay, callbacks, channels, keys, status,
    ]
    let webhooks = WebhookFeature(server, settings.webhooks, data: others.flatMap(\.webhookData))
    let page = OperatorPageFeature(server, settings.page, sandboxURL: sandboxURL)
    return others + [webhooks, page]
}

/// The static parts of a feature, and the place of its settings.
struct FeatureDeclaration: Sendable {
    let collections: [any RouteCollection.Type]
    let settings: [Setting<Settings>]
    /// Checks the rules between the feature's settings: ``SettingsGroup/validate(_:_:)``.
    let validate: @Sendable (SettingsReader, inout Settings) throws -> Void
    /// Applies reloaded settings to the feature, if it is the declared one.
    let reload: @Sendable (any Feature, Settings) -> Void

    /// - Parameter shared: Settings that the feature declares and other parts of the server read.
    init<F: Feature>(
        _ feature: F.Type,
        _ path: any WritableKeyPath<Settings, F.Configuration> & Sendable,
        shared: [Setting<Settings>] = []
    ) {
        collections = F.collections
        settings = shared + F.Configuration.settings.map { $0.of(path) }
        validate = { reader, settings in try settings[keyPath: path].validate(reader, settings.kakao) }
        reload = { ($0 as? F)?.apply($1[keyPath: path]) }
    }

    init<F: Feature>(_ feature: F.Type) where F.Configuration == NoSettings {
        collections = F.collections
        settings = []
        validate = { _, _ in }
        reload = { _, _ in }
    }
}
