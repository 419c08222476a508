package import EventLoop
package import Logging

/// A connection that listens: it tells of every `NOTIFY` on some channels, and is made again whenever it is lost.
///
/// PostgreSQL keeps no notification for who is not connected. So the handler is also told each time that the connection
/// listens: from then on it hears of everything, and what was said before it may have missed. An idle listener runs no
/// statement; that the other end is gone the kernel finds out (``PostgresSettings/keepAliveIdle``,
/// ``PostgresSettings/tcpUserTimeout``).
package actor PostgresListener {
    /// What the handler is told.
    package enum Event: Sendable, Equatable {
        /// It listens now, for the first time or again. Whatever a notification would have told may have changed since
        /// the last event.
        case listening
        /// Somebody has called `NOTIFY channel, 'payload'` and committed. The payload is empty when none was given.
        case notification(channel: String, payload: String)
    }

    package nonisolated let loop: EventLoop
    package nonisolated var unownedExecutor: UnownedSerialExecutor { loop.asUnownedSerialExecutor() }

    private let settings: PostgresSettings
    private let channels: [String]
    private let logger: Logger
    /// Let go of at the end.
    private var handler: (@Sendable (Event) -> Void)?

    private let connection: ReconnectingConnection
    /// Channels that the server has yet to confirm.
    private var unconfirmed = 0

    /// A listener without a connection: see ``start()``.
    ///
    /// - Parameters:
    ///   - channels: One or more. Their names as they are: they are quoted here, so that capitals count. At most 63
    ///     bytes each.
    ///   - handler: Called on the loop, one event after another, in the order in which the server sends them. Not to
    ///     block.
    package init(
        settings: PostgresSettings,
        channels: [String],
        loop: EventLoop,
        logger: Logger,
        handler: @escaping @Sendable (Event) -> Void
    ) {
        precondition(!channels.isEmpty, "a listener has a channel")
        self.settings = settings
        self.channels = channels
        self.loop = loop
        self.logger = logger
        self.handler = handler
        connection = ReconnectingConnection(
            settings: settings,
            loop: loop,
            resolver: HostResolver(hosts: settings.hostsToResolve, loop: loop),
            logger: logger
        )
    }

    /// Begins to connect. Callable from anywhere; returns at once. What was started lives until ``shutdown()``.
    package nonisolated func start() {
        loop.execute {
            self.connection.start { event in self.assumeIsolated { $0.happened(event) } }
        }
    }

    /// Closes the connection. The handler is not called any more once this has returned.
    package nonisolated func shutdown() async {
        // Nobody fails the promise.
        try? await Promise<Void>.uninterruptedValue(on: loop) { promise in
            self.assumeIsolated { $0.close() }
            promise.complete(.success(()))
        }
    }

    private func close() {
        handler = nil
        connection.close(PostgresError(.connectionLost, detail: "the listener was shut down"))
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
            connection.current?.assumeIsolated { $0.close(PostgresError(.connectionLost, detail: "aborted")) }
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
        // Loud only where it ends what was said loudly.
        logger.log(
            level: connection.mayWait ? .debug : .notice,
            "listening to PostgreSQL",
            metadata: ["channels": "\(channels.joined(separator: " "))"]
        )
        connection.opened()
        handler?(.listening)
    }

    private func closed(_ error: PostgresError) {
        guard !connection.isClosed else { return }
        // Once, not with every attempt.
        logger.log(
            level: connection.mayWait ? .warning : .debug,
            "not listening to PostgreSQL",
            metadata: ["channels": "\(channels.joined(separator: " "))", "error": "\(String(reflecting: error))"]
        )
        connection.lost()
    }

    /// A name as an identifier (PostgreSQL manual, "Identifiers and Key Words").
    private static func quoted(_ name: String) -> String {
        "\"\(name.split(separator: "\"", omittingEmptySubsequences: false).joined(separator: "\"\""))\""
    }
}
