internal import EventLoop
internal import Logging

/// The connection of one owner, made again whenever it is lost, as ``Reconnection`` says.
///
/// The owner gets the connection's events, and says itself when it has come into use and when another is to be made: what it does for those
/// who wait for it lies in between.
final class ReconnectingConnection: @unchecked Sendable {
    // Touched on its loop only: whatever changes it checks.

    private let settings: PostgresSettings
    private let loop: EventLoop
    private let resolver: HostResolver
    private let logger: Logger
    /// Let go of at the end: until then owner and this hold each other.
    private var handler: (@Sendable (PostgresConnection.Event) -> Void)?

    /// The one that there is, or that is being made.
    private(set) var current: PostgresConnection?
    private var reconnection = Reconnection()
    private var retryTimer: TimerID?

    /// - Parameter resolver: Of `loop`.
    init(settings: PostgresSettings, loop: EventLoop, resolver: HostResolver, logger: Logger) {
        self.settings = settings
        self.loop = loop
        self.resolver = resolver
        self.logger = logger
    }

    /// Whether someone who wants it may wait for it: see ``Reconnection/mayWait``.
    var mayWait: Bool { reconnection.mayWait }

    /// Whether it is in use: see ``opened()``.
    var isOpen: Bool {
        if case .open = reconnection.state { true } else { false }
    }

    /// Whether no other will be made.
    var isClosed: Bool { reconnection.state == .closed }

    /// Begins to connect. Does nothing the second time, nor after ``close(_:)``.
    ///
    /// - Parameter handler: Gets the events of each connection, on the loop.
    func start(handler: @escaping @Sendable (PostgresConnection.Event) -> Void) {
        loop.preconditionOnLoop()
        let action = reconnection.start()
        guard action != .none else { return }
        self.handler = handler
        perform(action)
    }

    /// The connection has come into use.
    func opened() {
        loop.preconditionOnLoop()
        reconnection.opened(at: loop.now)
    }

    /// The connection has told its last event: makes another one, at once or later.
    func lost() {
        loop.preconditionOnLoop()
        current = nil
        perform(reconnection.ended(at: loop.now, jitter: .random(in: -1...1)))
    }

    /// Closes the connection, whose last event the owner still gets, and makes no other.
    func close(_ error: PostgresError) {
        loop.preconditionOnLoop()
        reconnection.close()
        handler = nil
        if let retryTimer { loop.cancel(retryTimer) }
        retryTimer = nil
        let connection = current
        current = nil
        connection?.assumeIsolated { $0.close(error) }
    }

    private func perform(_ action: Reconnection.Action) {
        switch action {
        case .none: break
        case .connect: connect()
        case .connectLater(let milliseconds):
            retryTimer = loop.schedule(after: .milliseconds(milliseconds)) {
                self.retryTimer = nil
                self.perform(self.reconnection.delayPassed())
            }
        }
    }

    private func connect() {
        guard let handler else { return }
        let connection = PostgresConnection(
            settings: settings,
            loop: loop,
            resolver: resolver,
            logger: logger,
            handler: handler
        )
        current = connection
        connection.assumeIsolated { $0.connect() }
    }
}
