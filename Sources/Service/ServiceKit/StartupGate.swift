import Endpoints
package import HTTPServer
import Postgres
import Synchronization

/// Middleware that responds with 503 until the database is ready, since its tables may not exist before.
///
/// Health, metrics, status and the OpenAPI document pass. With a journal Kakao's calls pass too, because Kakao does not repeat them.
package final class StartupGate: Middleware {
    private static let kakaoPrefix = "/kakao/"

    private let openPaths: [String]
    private let passesKakao: Bool
    private let state = Atomic<Bool>(false)
    private let shutdown = Atomic<Bool>(false)

    /// - Parameters:
    ///   - openPaths: The paths of health, metrics, status and the OpenAPI document.
    ///   - passesKakao: Whether a journal accepts Kakao's calls before the database is ready.
    init(openPaths: [String], passesKakao: Bool) {
        self.openPaths = openPaths
        self.passesKakao = passesKakao
    }

    /// Whether the database has been ready.
    package var isOpen: Bool { state.load(ordering: .relaxed) }

    /// Whether the server is shutting down and should get no new requests.
    package var isShuttingDown: Bool { shutdown.load(ordering: .relaxed) }

    /// A part of the life of a server.
    package enum Phase: Sendable {
        case starting, serving, shuttingDown
    }

    /// The part of its life in which the server is.
    package var phase: Phase { isShuttingDown ? .shuttingDown : isOpen ? .serving : .starting }

    /// Lets all requests pass from now on.
    package func open() {
        state.store(true, ordering: .relaxed)
    }

    package func beginShutdown() {
        shutdown.store(true, ordering: .relaxed)
    }

    package func receive(_ request: Request) throws -> Response? {
        guard
            isOpen || openPaths.contains(request.path)
                || passesKakao && request.path.hasPrefix(Self.kakaoPrefix)
        else { throw PostgresError(.unavailable).problem }
        return nil
    }

    package func send(_ response: inout Response, to request: Request) {}
}
