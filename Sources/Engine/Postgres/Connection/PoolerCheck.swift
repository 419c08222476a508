import EventLoop
import Locking
import Logging

/// Recognizes poolers that do not give each connection a session of its own, such as PgBouncer in transaction mode.
///
/// Behind them, prepared statements, parameters, notifications and locks of a session belong to its next client. A
/// pooler is checked before the first connection through it sets anything: two connections ask in turn for the process
/// that serves them, which must stay the same and must differ. Later a pooler may be set to another mode. Then two open
/// connections of this program get the same process, and the pooler is checked again.
final class PoolerCheck: Sendable {
    /// The check of this program. All connections belong together, whichever loop they are on.
    static let shared = PoolerCheck()

    /// The number of times that the two connections ask in turn. Other clients may come between two of them and hide
    /// that they share a process.
    private static let rounds = 5

    private struct Session {
        let destination: PostgresSettings.Destination
        let connection: ObjectIdentifier
        let close: @Sendable (PostgresError) -> Void
    }

    private struct State {
        var passed: Set<PostgresSettings.Destination> = []
        /// The checks that have begun. Connections that are opened meanwhile wait for the same result.
        var running: [PostgresSettings.Destination: Task<Void, any Error>] = [:]
        /// The sessions of open connections through poolers.
        var sessions: [SessionFacts.Process: Session] = [:]
    }

    private let state = Locked(State())

    private init() {}

    static func refusal(_ server: String) -> PostgresError {
        PostgresError(
            .unsuitable,
            detail: """
                the pooler at \(server) gives one session to two connections (transaction or statement mode): set \
                pool_mode = session for this database in PgBouncer, or connect to PostgreSQL itself
                """
        )
    }

    /// Whether the pooler has passed, so that no check is needed.
    func hasPassed(_ settings: PostgresSettings) -> Bool {
        state.withLock { $0.passed.contains(settings.destination) }
    }

    /// Checks a pooler, or waits for the check that has begun already.
    ///
    /// - Parameter server: The address of the pooler, for the error.
    /// - Throws: ``PostgresError/Code/unsuitable`` for one that does not give each connection a session of its own;
    ///   another ``PostgresError`` if that cannot be found out.
    func run(_ settings: PostgresSettings, server: String, on loop: EventLoop, logger: Logger) async throws {
        let destination = settings.destination
        let check = state.withLock { state -> Task<Void, any Error> in
            if let check = state.running[destination] { return check }
            let check = Task(executorPreference: loop) {
                let result: Result<Void, any Error>
                do {
                    result = .success(try await self.probe(settings, server: server, on: loop, logger: logger))
                } catch {
                    result = .failure(error)
                }
                self.state.withLock { state in
                    state.running[destination] = nil
                    if case .success = result { state.passed.insert(destination) }
                }
                return try result.get()
            }
            state.running[destination] = check
            return check
        }
        try await check.value
    }

    private func probe(_ settings: PostgresSettings, server: String, on loop: EventLoop, logger: Logger) async throws {
        let probes = [
            Probe(settings, on: loop, logger: logger), Probe(settings, on: loop, logger: logger),
        ]
        do {
            for probe in probes { try await probe.open() }
            var processes: [String?] = [nil, nil]
            // Each asks twice in a row: a pooler that gives out two sessions by turns would give each its own
            // otherwise.
            for ask in 0..<4 * Self.rounds {
                let index = ask / 2 % 2
                let process = try await probes[index].process()
                guard processes[index] ?? process == process, processes[1 - index] != process else {
                    throw Self.refusal(server)
                }
                processes[index] = process
            }
            for probe in probes { await probe.close() }
        } catch {
            for probe in probes { await probe.close() }
            throw error
        }
    }

    // MARK: Open sessions

    /// Records the session of a connection through a pooler. Returns whether no other open connection has it. If one
    /// has, the other one is closed, and the next connection checks the pooler.
    func add(
        _ process: SessionFacts.Process,
        of connection: PostgresConnection,
        close: @escaping @Sendable (PostgresError) -> Void
    ) -> Bool {
        let settings = connection.settings
        let other = state.withLock { state -> Session? in
            guard let other = state.sessions[process] else {
                state.sessions[process] = Session(
                    destination: settings.destination,
                    connection: ObjectIdentifier(connection),
                    close: close
                )
                return nil
            }
            state.passed.remove(settings.destination)
            return other
        }
        other?.close(PostgresError(.connectionLost, detail: "the pooler gave its session to another connection"))
        return other == nil
    }

    /// Returns the number of connections that this program has through a pooler once it has opened as many as it gets at the same time,
    /// but no more than `count`. The new ones do nothing, and are closed again. `nil` for a server that is no pooler, or not known yet.
    ///
    /// No statement tells the limits of a pooler: a client that exceeds them waits.
    func connections(
        upTo count: Int,
        _ settings: PostgresSettings,
        on loop: EventLoop,
        logger: Logger
    ) async -> Int? {
        let destination = settings.destination
        let open = state.withLock { state in
            state.passed.contains(destination) ? state.sessions.values.count { $0.destination == destination } : nil
        }
        guard let open else { return nil }
        let probes = (0..<max(0, count - open)).map { _ in Probe(settings, on: loop, logger: logger) }
        let opened = await withTaskGroup(of: Bool.self) { group in
            for probe in probes {
                group.addTask(executorPreference: loop) {
                    do {
                        try await probe.open()
                        // PgBouncer gives a client its session with the first statement.
                        _ = try await probe.process()
                        return true
                    } catch {
                        return false
                    }
                }
            }
            return await group.reduce(0) { $0 + ($1 ? 1 : 0) }
        }
        for probe in probes { await probe.close() }
        return open + opened
    }

    func remove(_ process: SessionFacts.Process, of connection: PostgresConnection) {
        state.withLock { state in
            guard state.sessions[process]?.connection == ObjectIdentifier(connection) else { return }
            state.sessions[process] = nil
        }
    }
}

/// A connection that only asks which process serves it.
private final class Probe: Sendable {
    private let connection: PostgresConnection
    private let opening: Locked<Promise<Void>?>

    init(_ settings: PostgresSettings, on loop: EventLoop, logger: Logger) {
        let opening = Locked<Promise<Void>?>(nil)
        self.opening = opening
        connection = PostgresConnection(settings: settings, loop: loop, logger: logger, isProbe: true) { event in
            let promise = opening.withLock { $0 }
            switch event {
            case .opened: promise?.complete(.success(()))
            case .closed(let error, _): promise?.complete(.failure(error))
            case .answered, .notified: break
            }
        }
    }

    func open() async throws {
        let (connection, opening) = (connection, opening)
        try await Promise<Void>.uninterruptedValue(on: connection.loop) { promise in
            opening.withLock { $0 = promise }
            connection.assumeIsolated { $0.connect() }
        }
    }

    func process() async throws -> String {
        let connection = connection
        let rows = try await Promise<PostgresRows>.uninterruptedValue(on: connection.loop) { promise in
            connection.assumeIsolated { connection in
                let timeout = connection.settings.connectTimeout
                connection.ask("SELECT pg_catalog.pg_backend_pid()::text", timeout: timeout) { result in
                    promise.complete(result.mapError { $0 })
                }
            }
        }
        guard let row = rows.first else { throw PostgresError(.decoding) }
        return try row.decode(String.self)
    }

    func close() async {
        let connection = connection
        await connection.loop.result {
            connection.assumeIsolated { $0.close(PostgresError(.connectionLost, detail: "the check has ended")) }
        }
    }
}
