import CLibpq
import EventLoop
import Locking

// The beginning of a session: what happens between the handshake and the first command of the owner.
extension PostgresConnection {
    /// Sets the session's parameters, checks the server, and then reports the connection as open.
    ///
    /// It has the rest of the time of the attempt to connect.
    func openSession() {
        // A probe leaves no trace.
        guard !isProbe else { return finishOpening() }
        let isPoolerTrusted = PoolerCheck.shared.hasPassed(settings)
        open(SessionOpening(settings, onlyIn: isPoolerTrusted ? nil : PQbackendPID(handle)))
    }

    private func open(_ opening: SessionOpening) {
        ask(opening.text) { result in
            self.assumeIsolated { connection in
                do {
                    try connection.opened(SessionFacts(result.get()))
                } catch let error as PostgresError {
                    // A name may have the address of the primary, too.
                    if error.code == .standby {
                        connection.settings.addresses.withLock { $0.isReadOnly(connection.address) }
                    }
                    connection.close(error)
                } catch {
                    connection.close(PostgresError(.unavailable, detail: "\(error)"))
                }
            }
        }
    }

    private func opened(_ facts: SessionFacts) throws {
        if let refusal = facts.refusal(serverName, mayBeStandby: settings.isReplica) { throw refusal }
        guard facts.isPinned else { return checkPooler() }
        session = facts
        // A pooler makes up the process ids that it sends to its clients (PgBouncer: random numbers).
        if facts.process.pid != PQbackendPID(handle) {
            let isNew = PoolerCheck.shared.add(facts.process, of: self) { error in
                self.loop.execute { self.assumeIsolated { $0.close(error) } }
            }
            guard isNew else { throw PoolerCheck.refusal(serverName) }
        }
        finishOpening()
    }

    /// Checks the pooler before anything is set in a session of it.
    private func checkPooler() {
        let (settings, loop, logger, server) = (settings, loop, logger, serverName)
        Task(executorPreference: loop) {
            let result: Swift.Result<Void, PostgresError>
            do {
                result = .success(try await PoolerCheck.shared.run(settings, server: server, on: loop, logger: logger))
            } catch let error as PostgresError {
                result = .failure(error)
            } catch {
                result = .failure(PostgresError(.unavailable, detail: "\(error)"))
            }
            loop.execute { self.assumeIsolated { $0.checkedPooler(result) } }
        }
    }

    private func checkedPooler(_ result: Swift.Result<Void, PostgresError>) {
        guard !isClosed else { return }
        switch result {
        case .success: open(SessionOpening(settings, onlyIn: nil))
        case .failure(let error): close(error)
        }
    }

    private func finishOpening() {
        loop.cancel(timer.take())
        emit(.opened)
    }

    /// The address of the server, for errors.
    private var serverName: String {
        let host = PQhost(handle).map { String(cString: $0) } ?? ""
        let port = PQport(handle).map { String(cString: $0) } ?? ""
        return host.contains(":") ? "[\(host)]:\(port)" : "\(host):\(port)"
    }

    /// Runs a script of the connection's own, whose result is not reported to the owner.
    ///
    /// - Parameter timeout: The time after which the connection is closed; `nil` while it is being opened.
    func ask(
        _ text: String,
        timeout: Duration? = nil,
        _ receive: @escaping @Sendable (Swift.Result<PostgresRows, PostgresError>) -> Void
    ) {
        send(
            script: PostgresCommand(
                StatementText(text: text),
                work: .script,
                timeout: timeout,
                receiver: .callback(receive)
            ),
            isOwn: true
        )
    }
}
