import ArgumentParser
import FoundationEssentials
import LogOutput
import Server

struct ServeCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "serve",
        abstract: "Run the server.",
        discussion: """
            SIGTERM or SIGINT shuts the server down: for http.drain_seconds it goes on serving, until its balancer has noticed; then \
            it finishes the requests and sends in flight, within 10 seconds. SIGHUP reads the settings, the files of secrets and \
            the certificate again, and applies what needs no restart. From systemd it takes sockets (LISTEN_FDS) and \
            credentials (CREDENTIALS_DIRECTORY), and it serves its watchdog.
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
            let server = try PushServer(
                settings: settings,
                migrations: options.migrations,
                logger: settings.logger(sink),
                logSink: sink,
                startsStopped: stopped,
                serviceManager: ServiceManager(environment: ProcessInfo.processInfo.environment)
            )
            try await server.runUntilSignal { [options] in try options.load() }
        }
    }
}
