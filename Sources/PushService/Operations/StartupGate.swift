internal import HTTPServer
internal import Postgres
internal import Synchronization

/// Answers 503 for as long as the database is not ready: its tables may not exist yet.
///
/// Health, metrics and status pass, and with a journal Kakao's calls, which Kakao does not repeat.
final class StartupGate: Middleware {
    private static let openPaths = HealthRoutes.quietPaths + [MetricsRoutes.path, StatusRoutes.path]
    private static let kakaoPrefix = "/kakao/"

    private let passesKakao: Bool
    private let state = Atomic<Bool>(false)
    private let shutdown = Atomic<Bool>(false)

    /// - Parameter passesKakao: Whether there is a journal that takes Kakao's calls before the database is ready.
    init(passesKakao: Bool) {
        self.passesKakao = passesKakao
    }

    /// Whether the database was ready once.
    var isOpen: Bool { state.load(ordering: .relaxed) }

    /// Whether the server is shutting down: no new work is to be sent here.
    var isShuttingDown: Bool { shutdown.load(ordering: .relaxed) }

    /// Lets everything pass from now on.
    func open() {
        state.store(true, ordering: .relaxed)
    }

    func beginShutdown() {
        shutdown.store(true, ordering: .relaxed)
    }

    func receive(_ request: Request) throws -> Response? {
        guard
            isOpen || Self.openPaths.contains(request.path)
                || passesKakao && request.path.hasPrefix(Self.kakaoPrefix)
        else { throw PostgresError(.unavailable).problem }
        return nil
    }

    func send(_ response: inout Response, to request: Request) {}
}
