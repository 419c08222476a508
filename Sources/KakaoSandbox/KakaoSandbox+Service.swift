internal import ServiceLifecycle
internal import UnixSignals

extension KakaoSandbox {
    /// Serves until the process gets SIGTERM or SIGINT.
    ///
    /// - Parameter whenReady: Called once, when requests are taken up and the signals are waited for.
    /// - Throws: What a `ServiceGroup` throws; nothing of the sandbox's own.
    package func serveUntilSignal(whenReady: @escaping @Sendable () -> Void) async throws {
        let service = SandboxService(sandbox: self, whenReady: whenReady)
        try await ServiceGroup(services: [service], gracefulShutdownSignals: [.sigterm, .sigint], logger: logger).run()
    }
}

/// A sandbox with the life of a process.
private struct SandboxService: Service {
    let sandbox: KakaoSandbox
    let whenReady: @Sendable () -> Void

    func run() async throws {
        sandbox.start()
        whenReady()
        // Cancelled without a graceful shutdown: ended all the same.
        try? await gracefulShutdown()
        await sandbox.shutdown()
    }
}
