internal import ArgumentParser
internal import EventLoop
internal import FoundationEssentials
internal import Glibc
internal import LogOutput
internal import Logging
internal import PushService
internal import ServiceLifecycle
internal import UnixSignals

/// The push server as a process of its own, with intervals of the proof's choice.
struct ServeUnderTest: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "serve-under-test",
        abstract: "The push server that the proof stops, kills and cuts off. Settings come from the environment.",
        shouldDisplay: false
    )

    /// The line, before the port, that is printed when the server is ready.
    static let readyPrefix = "serving on port "

    @Option(
        help: "The sender's lease in milliseconds, by which its other intervals are scaled. (default: as in production)"
    )
    var leaseMilliseconds: Int?

    @Option(help: "The folder of the migrations.")
    var migrations: String

    // Off the main actor: what a task of the main actor starts would crawl.
    @concurrent
    func run() async throws {
        let settings = try Settings(
            environment: ProcessInfo.processInfo.environment,
            yaml: nil,
            path: "",
            readFile: { _ in throw CocoaError(.fileReadNoSuchFile) }
        )
        let sink = LogSink()
        defer { sink.flush() }
        let logger = Logger(label: "push-server") {
            _ in LineLogHandler(sink: sink, format: settings.logFormat, level: settings.logLevel)
        }
        var intervals = SenderIntervals()
        if let leaseMilliseconds {
            intervals = SenderIntervals(lease: .milliseconds(leaseMilliseconds))
            // A rate limit would otherwise be most of what a run takes.
            intervals.quotaWait = intervals.lease * 0.2
        }
        let server = try PushServer(
            settings: settings,
            migrations: migrations,
            logger: logger,
            // One loop has everything that two have, and fewer connections to PostgreSQL.
            loopCount: leaseMilliseconds == nil ? EventLoopGroup.coreCount : 1,
            senderIntervals: intervals,
            onListening: { server in
                print("\(Self.readyPrefix)\(server.port)")
                fflush(nil)
            }
        )
        var groupLogger = logger
        groupLogger.logLevel = max(.warning, logger.logLevel)
        try await ServiceGroup(
            services: [server],
            gracefulShutdownSignals: [.sigterm, .sigint],
            logger: groupLogger
        ).run()
    }
}
