package import EventLoop
import Locking
package import Logging

/// A connection that receives every `NOTIFY` on some channels, and reconnects whenever it is lost.
///
/// PostgreSQL keeps no notifications for a disconnected client. The handler is therefore also called each time the
/// connection begins to listen: it receives all later notifications, and may have missed earlier ones. An idle listener
/// runs no statements; the kernel detects a lost peer (``PostgresSettings/keepAliveIdle``,
/// ``PostgresSettings/tcpUserTimeout``). It does not detect one whose processes are stopped: the listener leaves it once other
/// connections have reached the database at another address.
package actor PostgresListener {
    /// An event for the handler.
    package enum Event: Sendable, Equatable {
        /// The connection listens, for the first time or again. Notifications since the last event may have been
        /// missed.
        case listening
        /// A client called `NOTIFY channel, 'payload'` and committed. The payload is empty if none was given.
        case notification(channel: String, payload: String)
    }

    package nonisolated let loop: EventLoop
    package nonisolated var unownedExecutor: UnownedSerialExecutor { loop.asUnownedSerialExecutor() }

    /// The time between two looks at where the other connections have reached the database.
    private static let addressInterval = Duration.seconds(5)

    private let settings: PostgresSettings
    private let channels: [String]
    private let logger: Logger
    /// Released when the listener is shut down.
    private var handler: (@Sendable (Event) -> Void)?

    private let connection: ReconnectingConnection
    /// The number of channels that the server has not confirmed yet.
    private var unconfirmed = 0
    private var addressTimer: TimerID?

    /// Creates a listener without a connection. ``start()`` connects it.
    ///
    /// - Parameters:
    ///   - channels: One or more channel names of at most 63 bytes. They are quoted, so they are case-sensitive.
    ///   - handler: Called on the loop for each event, in the order in which the server sends them. It must not block.
    package init(
        settings: PostgresSettings,
        channels: [String],
        loop: EventLoop,
        logger: Logger,
        handler: @escaping @Sendable (Event) -> Void
    ) {
        precondition(!channels.isEmpty, "a listener needs at least one channel")
        self.settings = settings
        self.channels = channels
        self.loop = loop
        self.logger = logger
        self.handler = handler
        connection = ReconnectingConnection(settings: settings, loop: loop, logger: logger)
    }

    /// Starts to connect. Callable from any thread; returns at once. A started listener lives until ``shutdown()``.
    package nonisolated func start() {
        loop.execute {
            self.connection.start { event in self.assumeIsolated { $0.happened(event) } }
            self.assumeIsolated { $0.watchAddress() }
        }
    }

    /// Closes the connection. The handler is not called after this has returned.
    package nonisolated func shutdown() async {
        await loop.result { self.assumeIsolated { $0.close() } }
    }

    private func close() {
        handler = nil
        loop.cancel(addressTimer.take())
        connection.close(PostgresError(.connectionLost, detail: "the listener was shut down"))
    }

    private func watchAddress() {
        guard !connection.isClosed else { return }
        addressTimer = loop.schedule(after: Self.addressInterval) {
            self.assumeIsolated { listener in
                listener.leaveFormerAddress()
                listener.watchAddress()
            }
        }
    }

    private func leaveFormerAddress() {
        guard connection.isOpen, let current = connection.current else { return }
        let address = current.assumeIsolated { $0.address }
        guard settings.addresses.withLock({ $0.hasMoved(from: address) }) else { return }
        let detail = "the database was reached at another address meanwhile"
        current.assumeIsolated { $0.close(PostgresError(.connectionLost, detail: detail)) }
    }

    private func happened(_ event: PostgresConnection.Event) {
        switch event {
        case .opened:
            listen()
        case .answered(_, .rows):
            unconfirmed -= 1
            if unconfirmed == 0 { listens() }
        case .answered(_, .failed(let error)):
            connection.current?.assumeIsolated { $0.close(error) }
        case .answered(_, .aborted):
            connection.current?.assumeIsolated {
                $0.close(PostgresError(.connectionLost, detail: "aborted by the failure of an earlier command"))
            }
        case .notified(let channel, let payload):
            handler?(.notification(channel: channel, payload: payload))
        case .closed(let error, _):
            closed(error)
        }
    }

    private func listen() {
        let commands = channels.map { channel in
            PostgresCommand(
                StatementText(text: "LISTEN \(Self.quoted(channel))"),
                work: .statement([]),
                timeout: settings.statementTimeout,
                receiver: .callback { _ in }
            )
        }
        unconfirmed = commands.count
        connection.current?.assumeIsolated { $0.send(commands, .apart) }
    }

    private func listens() {
        // A notice only after a failed attempt to connect.
        logger.log(
            level: connection.mayWait ? .debug : .notice,
            "Database listener connected",
            metadata: ["channels": "\(channels.joined(separator: " "))"]
        )
        connection.opened()
        handler?(.listening)
    }

    private func closed(_ error: PostgresError) {
        guard !connection.isClosed else { return }
        // A warning only for the first failure, not for every attempt.
        logger.log(
            level: connection.mayWait ? .warning : .debug,
            "Database listener disconnected",
            metadata: ["channels": "\(channels.joined(separator: " "))", "error": "\(String(reflecting: error))"]
        )
        connection.lost()
    }

    /// Returns a name as a quoted identifier (PostgreSQL manual, "Identifiers and Key Words").
    private static func quoted(_ name: String) -> String {
        "\"\(name.split(separator: "\"", omittingEmptySubsequences: false).joined(separator: "\"\""))\""
    }
}
