import EventLoop
import Logging

/// The connection of one owner, which reconnects after a loss on the schedule of ``Reconnection``.
///
/// The owner receives the connection's events. It reports when the connection is in use and when to reconnect, so that
/// it can handle waiting callers in between.
final class ReconnectingConnection: @unchecked Sendable {
    // Only used on its loop; the methods that change its state check that.

    private let settings: PostgresSettings
    private let loop: EventLoop
    private let logger: Logger
    /// Released by ``close(_:)``: until then the owner and this object retain each other.
    private var handler: (@Sendable (PostgresConnection.Event) -> Void)?

    /// The current connection, open or being opened.
    private(set) var current: PostgresConnection?
    private var reconnection = Reconnection()
    private var retryTimer: TimerID?
    private var openings = 0

    init(settings: PostgresSettings, loop: EventLoop, logger: Logger) {
        self.settings = settings
        self.loop = loop
        self.logger = logger
    }

    /// Whether callers may wait for the connection: see ``Reconnection/mayWait``.
    var mayWait: Bool { reconnection.mayWait }

    /// Whether the connection is in use: see ``opened()``.
    var isOpen: Bool {
        if case .open = reconnection.state { true } else { false }
    }

    /// Whether ``close(_:)`` was called, after which there are no more attempts to connect.
    var isClosed: Bool { reconnection.state == .closed }

    /// The number of times that a lost connection was opened again.
    var reconnections: Int { max(0, openings - 1) }

    /// Starts to connect. Does nothing the second time, or after ``close(_:)``.
    ///
    /// - Parameter handler: Receives the events of each connection, on the loop.
    func start(handler: @escaping @Sendable (PostgresConnection.Event) -> Void) {
        loop.preconditionOnLoop()
        let action = reconnection.start()
        guard action != .none else { return }
        self.handler = handler
        perform(action)
    }

    /// Records that the connection is in use.
    func opened() {
        loop.preconditionOnLoop()
        reconnection.opened(at: loop.now)
        openings += 1
    }

    /// Reconnects after the connection's last event, at once or after a delay.
    func lost() {
        loop.preconditionOnLoop()
        current = nil
        perform(reconnection.ended(at: loop.now, jitter: .random(in: -1...1)))
    }

    /// Closes the connection for good. The owner still receives its last event.
    func close(_ error: PostgresError) {
        loop.preconditionOnLoop()
        reconnection.close()
        handler = nil
        loop.cancel(retryTimer.take())
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
            logger: logger,
            handler: handler
        )
        current = connection
        connection.assumeIsolated { $0.connect() }
    }
}
