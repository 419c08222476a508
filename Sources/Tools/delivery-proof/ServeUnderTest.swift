import Accounts
import ArgumentParser
import Channels
import EventLoop
import FoundationEssentials
import Glibc
import LogOutput
import Logging
import Messages
import Pushes
import Runtime
import Server

/// The push server as a separate process, with intervals that the proofs choose.
struct ServeUnderTest: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "serve-under-test",
        abstract: "Run a push server for the proofs to stop, kill and disconnect. Settings come from the environment.",
        shouldDisplay: false
    )

    /// The prefix of the line that is printed when the server is ready. The port follows.
    static let readyPrefix = "serving on port "

    @Option(
        help: "The senders' lease in milliseconds; scales their other intervals. (default: as in production)"
    )
    var leaseMilliseconds: Int?

    @Option(help: "The lease of a token refresh in milliseconds. (default: as in production)")
    var refreshLeaseMilliseconds: Int?

    @Option(help: "The directory of the migrations.")
    var migrations: String

    // Off the main actor: tasks that are started from the main actor run slowly.
    @concurrent
    func run() async throws {
        var settings = try Settings(
            environment: ProcessInfo.processInfo.environment,
            yaml: nil,
            path: "",
            readFile: { _ in throw CocoaError(.fileReadNoSuchFile) }
        )
        let sink = LogSink()
        defer { sink.flush() }
        sink.level = settings.logLevel
        let logger = Logger(label: "push-server") { _ in LineLogHandler(sink: sink, format: settings.logFormat) }
        if let leaseMilliseconds {
            settings.pushes.intervals = WorkIntervals(lease: .milliseconds(leaseMilliseconds))
            // Otherwise the wait after a rate limit would be most of the run's duration.
            settings.pushes.intervals.quotaWait = settings.pushes.intervals.lease * 0.2
            settings.messages.intervals = settings.pushes.intervals
            settings.channels.intervals = settings.pushes.intervals
        }
        if let refreshLeaseMilliseconds {
            settings.accounts.refreshIntervals = RefreshIntervals(lease: .milliseconds(refreshLeaseMilliseconds))
        }
        let server = try PushServer(
            settings: settings,
            migrations: migrations,
            logger: logger,
            // One loop runs the same code as two, with fewer connections to PostgreSQL.
            loopCount: leaseMilliseconds == nil && refreshLeaseMilliseconds == nil ? EventLoopGroup.coreCount : 1,
            onReady: { server in
                print("\(Self.readyPrefix)\(server.port)")
                fflush(nil)
            }
        )
        try await server.runUntilSignal { [settings] in settings }
    }
}
