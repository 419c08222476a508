import EventLoop
import Logging
import Postgres
import Runtime

extension OperatorKeys {
    /// Returns the worker that writes the times when operator keys were last used: at most once a minute, all keys in
    /// one statement, and once more when the server stops.
    ///
    /// - Parameter store: The store of `loop`.
    func useWriter(_ store: OperatorKeyStore, on loop: EventLoop, logger: Logger) -> BackgroundWorker {
        BackgroundWorker(
            "write-key-uses",
            on: loop,
            every: .seconds(60),
            firstAfter: .seconds(60),
            retryAfter: .seconds(60),
            stepsAfterStop: true,
            pace: nil,
            failure: "Last use of operator keys not recorded",
            level: .warning,
            logger: logger
        ) { _ in
            let uses = self.drainUses()
            guard !uses.isEmpty else { return nil }
            do {
                try await store.pool.write(RecordOperatorKeyUses(uses: uses))
            } catch {
                self.restore(uses)
                throw error
            }
            return nil
        }
    }
}
