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

    init(_ server: ServerContext) {
        self.server = server
        importSignal = Signal(loop: server.background.loop)
    }

    func addRoutes(to routes: inout Routes, _ loop: LoopServices) {
        let registrar = server.registrar(loop, .requests)
        let calls = server.callStore(loop)
        routes.add(KakaoDeviceRoutes(registrar: registrar))
        routes.add(DeviceRoutes(registrar: registrar))
        routes.add(
            DeviceTransferRoutes(
                imports: DeviceImportStore(pool: loop.pool, renewal: server.renewal),
                exports: DeviceExportStore(pool: loop.pool),
                uploads: imports,
                importSignal: importSignal
            )
        )
        routes.add(
            UserRoutes(
                registrar: registrar,
                events: calls.events,
                callbacks: calls.callbacks,
                userIDArgument: server.settings.userIDArgument
            )
        )
    }

    var services: [any Service] {
        let (loop, logger) = (server.background, server.logger)
        let registrar = server.registrar(loop, .background)
        return [
            PendingDeviceWorker(registrar: registrar, logger: logger).worker(on: loop.loop, pace: server.pace),
            registrar.renewer(
                on: loop.loop,
                activeWithinDays: server.settings.activeWithinDays,
                pace: server.pace,
                logger: logger
            ),
            DeviceImportStore(pool: loop.pool, renewal: server.renewal).pacer(
                on: loop.loop,
                signal: importSignal,
                registrationSignal: server.registrationSignal,
                pace: server.pace,
                logger: logger
            ),
        ]
    }
}
