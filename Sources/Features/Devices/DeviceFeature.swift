package import Endpoints
import EventLoop
import FoundationEssentials
import Identity
import KakaoAPI
import Locking
import Postgres
package import Runtime
package import ServiceKit
package import ServiceLifecycle

/// The devices of users: registration, import and export, renewal.
package struct DeviceFeature: Feature {
    package typealias Configuration = DeviceSettings

    package static let collections: [any RouteCollection.Type] = [
        KakaoDeviceRoutes.self, DeviceRoutes.self, DeviceTransferRoutes.self, UserRoutes.self,
    ]

    /// The start of the paths that contain push tokens.
    package static let devicePath = DeviceRoutes.path

    private let server: ServerContext
    private let settings: DeviceSettings
    private let channelTag: String?
    private let counts: LoopCounts<DeviceCount>
    private let newDevices: RequestLimit<Int64>
    private let known: LoopValue<KnownDevices>
    private let lifetimes: LastLifetimes
    /// When users left the app in the last minutes, by the database's clock.
    private let departures = Locked(RecentValues<Int64, Date>(maximum: 20_000))
    private let concurrentImports = ConcurrencyLimit(DeviceTransferRoutes.maximumImports)
    /// Signalled when an import has ended.
    private let importSignal: Signal
    /// Wakes the worker that calls Kakao.
    private let registrationSignal: Signal

    /// - Parameter channelTag: The tag of the devices of users who have added a KakaoTalk channel; `nil` for none.
    package init(_ server: ServerContext, _ settings: DeviceSettings, channelTag: String?) {
        self.server = server
        self.settings = settings
        self.channelTag = channelTag
        newDevices = RequestLimit(perHour: settings.newPerHourPerUser)
        counts = LoopCounts(server.loops)
        lifetimes = LastLifetimes(days: settings.tokenLifetimeDays)
        known = LoopValue(KnownDevices(), loops: server.loops.map(\.loop))
        importSignal = Signal(loop: server.background.loop)
        registrationSignal = Signal(loop: server.background.loop)
        server.lifecycle.register { [self] loop in
            DeviceUserObserver(
                registrar: registrar(loop, .requests),
                pruneAfterFailures: settings.pruneAfterFailures,
                departures: departures,
                logger: server.logger
            )
        }
        server.monitoring.register(DeviceMonitoring(pool: server.sending.pool, counts: counts).report)
        registerChecks()
    }

    /// Registers the checks for lost commits.
    private func registerChecks() {
        let store = DeviceStore(pool: server.background.pool, channelTag: channelTag)
        let hasKakaoUserIDs = server.identity.hasKakaoUserIDs
        server.lostCommits.register("withdrawals") { [known, departures, registrationSignal] report in
            defer { registrationSignal.send() }
            try await store.restoreWithdrawals(
                KnownDevices.merged(known.all()),
                departures: departures.withLock { $0.all },
                report
            )
        }
        server.lostCommits.register("registrations") { [known, registrationSignal] report in
            defer { registrationSignal.send() }
            try await store.restoreRegistrations(
                KnownDevices.merged(known.all()),
                hasKakaoUserIDs: hasKakaoUserIDs,
                report
            )
        }
    }

    private func registrar(_ loop: LoopServices, _ budget: KakaoBudget) -> DeviceRegistrar {
        DeviceRegistrar(
            store: DeviceStore(pool: loop.pool, channelTag: channelTag),
            kakao: loop.kakao(budget),
            renewal: renewal,
            hasKakaoUserIDs: server.identity.hasKakaoUserIDs,
            signal: registrationSignal,
            availability: server.availability,
            counts: counts.on(loop.loop),
            newDevices: newDevices,
            known: known.on(loop.loop),
            lifetimes: lifetimes,
            webhooks: server.webhooks
        )
    }

    private func imports(_ loop: LoopServices) -> DeviceImportStore {
        DeviceImportStore(pool: loop.pool, renewal: renewal, channelTag: channelTag)
    }

    private var renewal: RenewalTime { RenewalTime(daysBeforeExpiry: settings.renewDaysBeforeExpiry) }

    package var webhookData: [WebhookData] { DeviceWebhooks.data }

    package func addRoutes(to routes: inout Routes, _ loop: LoopServices) {
        let registrar = registrar(loop, .requests)
        routes.add(KakaoDeviceRoutes(registrar: registrar))
        routes.add(DeviceRoutes(registrar: registrar))
        routes.add(
            DeviceTransferRoutes(
                imports: imports(loop),
                pool: loop.pool,
                uploads: concurrentImports,
                importSignal: importSignal
            )
        )
        routes.add(
            UserRoutes(
                registrar: registrar,
                lifecycle: server.lifecycle,
                observers: server.lifecycle.observers(loop),
                loop: loop
            )
        )
    }

    package func makeServices() -> [any Service] {
        let (loop, logger) = (server.background, server.logger)
        let registrar = registrar(loop, .background)
        return [
            PendingDeviceWorker(registrar: registrar, logger: logger).worker(on: loop.loop, pace: server.pace),
            registrar.renewer(
                on: loop.loop,
                activeWithinDays: settings.activeWithinDays,
                pace: server.pace,
                logger: logger
            ),
            imports(loop).pacer(
                on: loop.loop,
                signal: importSignal,
                registrationSignal: registrationSignal,
                pace: server.pace,
                logger: logger
            ),
        ]
    }

    package func apply(_ settings: DeviceSettings) { newDevices.apply(perHour: settings.newPerHourPerUser) }

    package var retentions: [Retention] {
        [
            Retention(
                "remove-old-withdrawals",
                .delete { DeleteOldFormerDevices(limit: $0) },
                .delete { DeleteOldErasures(limit: $0) }
            )
        ]
    }
}
