import ServiceLifecycle
import UnixSignals

extension KakaoSandbox {
    /// Serves until the process receives SIGTERM or SIGINT.
    ///
    /// - Parameter whenReady: Called once, when the sandbox accepts requests and handles the signals.
    /// - Throws: Errors of `ServiceGroup`; the sandbox itself throws none.
    package func serveUntilSignal(whenReady: @escaping @Sendable () -> Void) async throws {
        let service = SandboxService(sandbox: self, whenReady: whenReady)
        try await ServiceGroup(services: [service], gracefulShutdownSignals: [.sigterm, .sigint], logger: logger).run()
    }
}

/// A sandbox that serves for the lifetime of its process.
private struct SandboxService: Service {
    let sandbox: KakaoSandbox
    let whenReady: @Sendable () -> Void

    func run() async throws {
        sandbox.start()
        whenReady()
        // If the task is cancelled without a graceful shutdown, the sandbox shuts down all the same.
        try? await gracefulShutdown()
        await sandbox.shutdown()
    }
}
