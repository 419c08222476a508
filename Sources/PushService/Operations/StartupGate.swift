internal import HTTPServer
internal import Postgres
internal import ServiceKit
internal import Synchronization

/// Middleware that responds with 503 until the database is ready, since its tables may not exist before.
///
/// Health, metrics, status and the OpenAPI document pass. With a journal Kakao's calls pass too, because Kakao does not repeat them.
final class StartupGate: Middleware {
    private static let openPaths =
        HealthRoutes.quietPaths + [
            MetricsRoutes.path, StatusRoutes.path, OpenAPIRoutes.path,
        ]
    private static let kakaoPrefix = "/kakao/"

    private let passesKakao: Bool
    private let state = Atomic<Bool>(false)
    private let shutdown = Atomic<Bool>(false)

    /// - Parameter passesKakao: Whether a journal accepts Kakao's calls before the database is ready.
    init(passesKakao: Bool) {
        self.passesKakao = passesKakao
    }

    /// Whether the database has been ready.
    var isOpen: Bool { state.load(ordering: .relaxed) }

    /// Whether the server is shutting down and should get no new requests.
    var isShuttingDown: Bool { shutdown.load(ordering: .relaxed) }

    /// Lets all requests pass from now on.
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
