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
            Ends on SIGTERM or SIGINT: what is in hand is finished first, within 10 seconds. On SIGHUP it reads the files of its \
            certificate and key again.
            """
    )

    @OptionGroup var options: SettingsOptions

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
                logger: logger
            )
            try await server.runUntilSignal(logger)
        }
    }
}

extension PushServer {
    /// Runs until the process is told to end.
    func runUntilSignal(_ logger: Logger) async throws {
        // The group's own lines say nothing that ours do not.
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

/// Reads the certificate again on `SIGHUP`, for as long as the server runs.
private struct CertificateReload: Service {
    let server: PushServer

    func run() async throws {
        for await _ in await UnixSignalsSequence(trapping: .sighup).cancelOnGracefulShutdown() {
            await server.reloadCertificate()
        }
    }
}
