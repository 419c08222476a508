import DequeModule
import EventLoop
import Logging

/// A connection that is leased to one caller at a time and runs its commands in order.
actor ExclusiveConnection {
    enum Event: Sendable {
        case opened
        case closed(PostgresError, wasOpen: Bool)
    }

    /// The maximum number of waiting commands.
    private static let maximumWaiting = 1000

    nonisolated let loop: EventLoop
    nonisolated var unownedExecutor: UnownedSerialExecutor { loop.asUnownedSerialExecutor() }

    private let settings: PostgresSettings
    private let counts: PoolCounts
    private let logger: Logger
    /// Released with the last event.
    private var handler: (@Sendable (ExclusiveConnection, Event) -> Void)?

    private var connection: PostgresConnection?
    private var isOpen = false
    private var waiting = Deque<PostgresCommand>()
    private var inFlight = 0
    private var isScriptInFlight = false
    /// Whether the caller is in the middle of a `COPY`, so that no statement can be sent.
    private var isCopying = false
    /// The number of leases so far. It distinguishes the current caller's handle from earlier ones.
    private(set) var lease = 0
    private var isMarked = false
    private var lastError = PostgresError(.unavailable)

    init(
        settings: PostgresSettings,
        loop: EventLoop,
        counts: PoolCounts,
        logger: Logger,
        handler: @escaping @Sendable (ExclusiveConnection, Event) -> Void
    ) {
        self.settings = settings
        self.loop = loop
        self.counts = counts
        self.logger = logger
        self.handler = handler
    }

    /// Whether the connection is as clean as when it was leased.
    var isReusable: Bool {
        guard isOpen, !isMarked, inFlight == 0, waiting.isEmpty, let connection else { return false }
        return connection.assumeIsolated { $0.isOutsideTransaction }
    }

    /// Whether the server has not responded to all commands.
    var isBusy: Bool { inFlight > 0 }

    /// Excludes the connection from further leases, since its caller may leave settings, locks or temporary tables
    /// behind.
    func mark() {
        isMarked = true
    }

    /// Ends the current lease.
    func endLease() {
        lease += 1
    }

    func connect() {
        let connection = PostgresConnection(
            settings: settings,
            loop: loop,
            logger: logger
        ) { event in self.assumeIsolated { $0.happened(event) } }
        self.connection = connection
        connection.assumeIsolated { $0.connect() }
    }

    func close() {
        connection?.assumeIsolated { $0.close(PostgresError(.connectionLost, detail: "closed by its pool")) }
    }

    /// Enqueues a command. Each command is completed eventually.
    func submit(_ command: PostgresCommand, lease: Int) {
        if let refusal = command.refusal { return command.complete(.failure(refusal)) }
        guard lease == self.lease else {
            return command.fail(.unavailable, "the session was used after its lease had ended")
        }
        guard isOpen else { return command.complete(.failure(lastError)) }
        guard !isCopying else {
            return command.fail(.unavailable, "a COPY is in progress")
        }
        guard waiting.count < Self.maximumWaiting else {
            return command.fail(.overloaded, "\(waiting.count) statements are waiting")
        }
        if case .copy = command.work { isCopying = true }
        waiting.append(command)
        sendWaiting()
    }

    /// Sends a piece of the data of a `COPY`. Completes `promise` when the connection has room for the next one.
    func write(_ piece: [UInt8], to copy: PostgresCopy, _ promise: Promise<PostgresRows?>) {
        withConnection(of: copy, promise) { $0.write(piece, to: copy, promise) }
    }

    /// Ends the data of a `COPY`: complete, or incomplete for the reason in `failure`. Completes `promise` with the
    /// server's response.
    func end(_ copy: PostgresCopy, failure: String?, _ promise: Promise<PostgresRows?>) {
        withConnection(of: copy, promise) { $0.end(copy, failure: failure, promise) }
    }

    private func withConnection(
        of copy: PostgresCopy,
        _ promise: Promise<PostgresRows?>,
        _ body: @Sendable (isolated PostgresConnection) -> Void
    ) {
        // After its end, the copy itself knows the result.
        guard isCopying, let connection else {
            _ = copy.wait(promise)
            return
        }
        connection.assumeIsolated { body($0) }
    }

    private func sendWaiting() {
        while isOpen, !isScriptInFlight, let connection, let command = waiting.first {
            switch command.work {
            case .statement:
                waiting.removeFirst()
                guard !command.isAbandoned else { continue }
                inFlight += 1
                connection.assumeIsolated { $0.send([command], .apart) }
            case .script, .copy:
                // Not possible in pipeline mode, so earlier commands must have ended.
                guard inFlight == 0 else { return }
                waiting.removeFirst()
                guard !command.isAbandoned else { continue }
                inFlight += 1
                isScriptInFlight = true
                connection.assumeIsolated { $0.send(script: command) }
            }
        }
    }

    private func happened(_ event: PostgresConnection.Event) {
        switch event {
        case .opened:
            isOpen = true
            handler?(self, .opened)
        case .answered(let command, let answer):
            inFlight -= 1
            isScriptInFlight = false
            // A script or a `COPY` takes as long as it has work.
            if case .statement = command.work { counts.durations.record(milliseconds: loop.now - command.sentAt) }
            if case .copy = command.work { isCopying = false }
            command.complete(answer)
            sendWaiting()
        case .notified:
            // Listeners have connections of their own.
            break
        case .closed(let error, let unanswered):
            let wasOpen = isOpen
            (isOpen, isCopying) = (false, false)
            connection = nil
            lastError = error.with(code: .connectionLost)
            for command in unanswered { command.complete(.failure(error)) }
            for command in waiting { command.complete(.failure(lastError)) }
            waiting = []
            let handler = handler
            self.handler = nil
            handler?(self, .closed(error, wasOpen: wasOpen))
        }
    }
}
