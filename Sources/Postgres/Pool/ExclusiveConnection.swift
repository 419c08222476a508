internal import DequeModule
internal import EventLoop
internal import Logging

/// A connection that one caller has to itself at a time: keeps the order of what that caller asks for.
actor ExclusiveConnection {
    enum Event: Sendable {
        case opened
        case closed(PostgresError, wasOpen: Bool)
    }

    /// One caller's own statements may queue up this far.
    private static let maximumWaiting = 1000

    nonisolated let loop: EventLoop
    nonisolated var unownedExecutor: UnownedSerialExecutor { loop.asUnownedSerialExecutor() }

    private let settings: PostgresSettings
    private let resolver: HostResolver
    private let logger: Logger
    /// Let go of with the last event.
    private var handler: (@Sendable (ExclusiveConnection, Event) -> Void)?

    private var connection: PostgresConnection?
    private var isOpen = false
    private var waiting = Deque<PostgresCommand>()
    private var inFlight = 0
    private var isScriptInFlight = false
    /// The caller is in the middle of a `COPY`, so that no statement can be sent.
    private var isCopying = false
    /// Counts the callers, so that a handle of an earlier one is told from the present one's.
    private(set) var lease = 0
    private var isMarked = false
    private var lastError = PostgresError(.unavailable)

    init(
        settings: PostgresSettings,
        loop: EventLoop,
        resolver: HostResolver,
        logger: Logger,
        handler: @escaping @Sendable (ExclusiveConnection, Event) -> Void
    ) {
        self.settings = settings
        self.loop = loop
        self.resolver = resolver
        self.logger = logger
        self.handler = handler
    }

    /// Whether the next caller would find it as this one did.
    var isReusable: Bool {
        guard isOpen, !isMarked, inFlight == 0, waiting.isEmpty, let connection else { return false }
        return connection.assumeIsolated { $0.isOutsideTransaction }
    }

    /// Whether the server has yet to answer something.
    var isBusy: Bool { inFlight > 0 }

    /// The caller may leave settings, locks or temporary tables behind: not to be lent out again.
    func mark() {
        isMarked = true
    }

    /// Ends the present caller's time.
    func endLease() {
        lease += 1
    }

    func connect() {
        let connection = PostgresConnection(
            settings: settings,
            loop: loop,
            resolver: resolver,
            logger: logger
        ) { event in self.assumeIsolated { $0.happened(event) } }
        self.connection = connection
        connection.assumeIsolated { $0.connect() }
    }

    func close() {
        connection?.assumeIsolated { $0.close(PostgresError(.connectionLost, detail: "closed by its pool")) }
    }

    /// Answers the command sooner or later.
    func submit(_ command: PostgresCommand, lease: Int) {
        if let refusal = command.refusal { return command.complete(.failure(refusal)) }
        guard lease == self.lease else {
            let detail = "used after the call that lent the connection had returned"
            return command.complete(.failure(PostgresError(.unavailable, detail: detail, statement: command.statement)))
        }
        guard isOpen else { return command.complete(.failure(lastError)) }
        guard !isCopying else {
            let detail = "a COPY is under way"
            return command.complete(.failure(PostgresError(.unavailable, detail: detail, statement: command.statement)))
        }
        guard waiting.count < Self.maximumWaiting else { return command.complete(.failure(PostgresError(.overloaded))) }
        if case .copy = command.work { isCopying = true }
        waiting.append(command)
        sendWaiting()
    }

    /// Sends a piece of the data of a `COPY`. `promise` is answered when the connection has room for the next.
    func write(_ piece: [UInt8], to copy: PostgresCopy, _ promise: Promise<PostgresRows?>) {
        withConnection(of: copy, promise) { $0.write(piece, to: copy, promise) }
    }

    /// Ends the data of a `COPY`: there is no more, or there will not be what is missing, for the reason that `failure`
    /// gives. `promise` is answered with what the server makes of it.
    func end(_ copy: PostgresCopy, failure: String?, _ promise: Promise<PostgresRows?>) {
        withConnection(of: copy, promise) { $0.end(copy, failure: failure, promise) }
    }

    private func withConnection(
        of copy: PostgresCopy,
        _ promise: Promise<PostgresRows?>,
        _ body: @Sendable (isolated PostgresConnection) -> Void
    ) {
        // After its end it knows why.
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
                // Not possible in pipeline mode, so what was sent before has to be over.
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
            if case .copy = command.work { isCopying = false }
            switch answer {
            case .rows(let rows): command.complete(.success(rows))
            case .failed(let error): command.complete(.failure(error))
            case .aborted: command.complete(.failure(PostgresError(.connectionLost, detail: "aborted")))
            }
            sendWaiting()
        case .notified:
            // Who listens has a connection for that.
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
