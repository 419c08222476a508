import ArgumentParser
import LogOutput
import Logging
import Server
import ServiceLifecycle
import UnixSignals

struct ServeCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "serve",
        abstract: "Run the server.",
        discussion: """
            SIGTERM or SIGINT shuts the server down: it first finishes the requests and sends in flight, within 10 seconds. SIGHUP \
            reads the settings, the files of secrets and the certificate again, and applies what needs no restart.
            """
    )

    @OptionGroup var options: SettingsOptions

    @Flag(
        help: """
            Stop the sender on all servers before anything is sent. For the first start after a backup was restored: pushes \
            that are unsent in it may have been sent since. To continue: push-server sender start.
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
            try await server.runUntilSignal(logger) { [options] in try options.load() }
        }
    }
}

extension PushServer {
    /// Runs until the process receives SIGTERM or SIGINT. On SIGHUP it reads the settings again by `read`.
    func runUntilSignal(_ logger: Logger, reloading read: @escaping @Sendable () throws -> Settings) async throws {
        // Below warnings, the group's log lines only repeat the server's.
        var groupLogger = logger
        groupLogger.logLevel = max(.warning, logger.logLevel)
        let group = ServiceGroup(
            configuration: ServiceGroupConfiguration(
                services: [self, SettingsReload(server: self, read: read)],
                gracefulShutdownSignals: [.sigterm, .sigint],
                logger: groupLogger
            )
        )
        try await group.run()
    }
}

/// A service that reloads the settings on `SIGHUP` while the server runs.
private struct SettingsReload: Service {
    let server: PushServer
    let read: @Sendable () throws -> Settings

    func run() async throws {
        for await _ in await UnixSignalsSequence(trapping: .sighup).cancelOnGracefulShutdown() {
            await server.reload(read)
        }
    }
}
