internal import HTTPServer
internal import Postgres
internal import Synchronization

/// Answers 503 for as long as the database is not ready: what came in before would meet tables that are not there.
///
/// Health and metrics pass: they are asked for when something is wrong.
///
/// So a server that is started while PostgreSQL is down answers as one does from under which PostgreSQL went down.
final class StartupGate: Middleware {
    private let state = Atomic<Bool>(false)

    /// Whether everything passes.
    var isOpen: Bool { state.load(ordering: .relaxed) }

    /// Lets everything pass from now on.
    func open() {
        state.store(true, ordering: .relaxed)
    }

    func receive(_ request: Request) throws -> Response? {
        guard isOpen || HealthRoutes.quietPaths.contains(request.path) || request.path == MetricsRoutes.path else {
            throw PostgresError(.unavailable).problem
        }
        return nil
    }

    func send(_ response: inout Response, to request: Request) {}
}
