internal import EventLoop
internal import KakaoAPI
internal import ServiceKit
internal import ServiceLifecycle

/// The devices of users: registration, import and export, renewal.
struct DeviceFeature: Feature {
    static let collections: [any RouteCollection.Type] = [
        KakaoDeviceRoutes.self, DeviceRoutes.self, DeviceTransferRoutes.self, UserRoutes.self,
    ]

    private let server: ServerContext
    private let imports = UploadLimit(DeviceTransferRoutes.maximumImports)
    /// Signalled when an import has ended.
    private let importSignal: Signal
    /// Wakes the worker that calls Kakao.
    private let registrationSignal: Signal

    init(_ server: ServerContext) {
        self.server = server
        importSignal = Signal(loop: server.background.loop)
        registrationSignal = Signal(loop: server.background.loop)
        server.lifecycle.register { [self] loop in
            DeviceUsers(
                registrar: registrar(loop, .requests),
                pruneAfterFailures: server.settings.devices.pruneAfterFailures,
                logger: server.logger
            )
        }
    }

    private func registrar(_ loop: LoopServices, _ budget: KakaoBudget) -> DeviceRegistrar {
        DeviceRegistrar(
            store: DeviceStore(pool: loop.pool),
            kakao: loop.kakao(budget),
            renewal: renewal,
            hasKakaoUserIDs: server.settings.devices.userIDs == .kakao,
            signal: registrationSignal
        )
    }

    private var renewal: RenewalTime { RenewalTime(daysBeforeExpiry: server.settings.devices.renewDaysBeforeExpiry) }

    func addRoutes(to routes: inout Routes, _ loop: LoopServices) {
        let registrar = registrar(loop, .requests)
        routes.add(KakaoDeviceRoutes(registrar: registrar))
        routes.add(DeviceRoutes(registrar: registrar))
        routes.add(
            DeviceTransferRoutes(
                imports: DeviceImportStore(pool: loop.pool, renewal: renewal),
                exports: DeviceExportStore(pool: loop.pool),
                uploads: imports,
                importSignal: importSignal
            )
        )
        routes.add(UserRoutes(registrar: registrar, users: server.lifecycle.users(loop)))
    }

    func makeServices() -> [any Service] {
        let (loop, logger) = (server.background, server.logger)
        let registrar = registrar(loop, .background)
        return [
            PendingDeviceWorker(registrar: registrar, logger: logger).worker(on: loop.loop, pace: server.pace),
            registrar.renewer(
                on: loop.loop,
                activeWithinDays: server.settings.devices.activeWithinDays,
                pace: server.pace,
                logger: logger
            ),
            DeviceImportStore(pool: loop.pool, renewal: renewal).pacer(
                on: loop.loop,
                signal: importSignal,
                registrationSignal: registrationSignal,
                pace: server.pace,
                logger: logger
            ),
        ]
    }
}
