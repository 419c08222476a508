internal import ArgumentParser
internal import LogOutput
internal import Logging
internal import PushService
internal import ServiceLifecycle
internal import UnixSignals

struct ServeCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "serve",
        abstract: "Run the server.",
        discussion: """
            SIGTERM or SIGINT shuts the server down: it first finishes the requests and sends in flight, within 10 seconds. SIGHUP \
            reloads the certificate and private key.
            """
    )

    @OptionGroup var options: SettingsOptions

    @Flag(
        help: """
            Stop the sender before anything is sent, on all servers. For a start after a backup was restored: what it has \
            as unsent may have been sent. push-server sender start continues.
            """
    )
    var stopped = false

    @concurrent
    func run() async throws {
        try await reportingFailures {
            let settings = try options.load()
            let sink = LogSink()
            defer { sink.flush() }
            let logger = settings.logger(sink)
            let server = try PushServer(
                settings: settings,
                migrations: try options.migrationsFolder(),
                logger: logger,
                logSink: sink,
                startsStopped: stopped
            )
            try await server.runUntilSignal(logger)
        }
    }
}

extension PushServer {
    /// Runs until the process receives SIGTERM or SIGINT.
    func runUntilSignal(_ logger: Logger) async throws {
        // Below warnings, the group's log lines only repeat the server's.
        var groupLogger = logger
        groupLogger.logLevel = max(.warning, logger.logLevel)
        let group = ServiceGroup(
            configuration: ServiceGroupConfiguration(
                services: [self, CertificateReload(server: self)],
                gracefulShutdownSignals: [.sigterm, .sigint],
                logger: groupLogger
            )
        )
        try await group.run()
    }
}

/// A service that reloads the certificate on `SIGHUP` while the server runs.
private struct CertificateReload: Service {
    let server: PushServer

    func run() async throws {
        for await _ in await UnixSignalsSequence(trapping: .sighup).cancelOnGracefulShutdown() {
            await server.reloadCertificate()
        }
    }
}
