import Endpoints
import EventLoop
import HTTPClient
import KakaoAPI
import Logging
import Postgres

/// The services that each event loop has of its own, so that a request never leaves its event loop. Only if there are fewer
/// connections to PostgreSQL than loops, some loops use the pool of another.
package struct LoopServices: Sendable {
    package let loop: EventLoop
    package let pool: PostgresPool
    package let client: HTTPClient
    package let audit: AuditLog
    private let kakaoSettings: KakaoAPISettings
    private let onCall: @Sendable (KakaoCallReport) -> Void

    /// - Parameters:
    ///   - pool: The pool of `loop`, or of another loop that shares it.
    ///   - client: A client of `loop`.
    ///   - logger: The logger of what cannot be recorded in the audit log.
    ///   - onCall: Called for every finished call to Kakao.
    package init(
        loop: EventLoop,
        pool: PostgresPool,
        client: HTTPClient,
        kakao: KakaoAPISettings,
        logger: Logger,
        onCall: @escaping @Sendable (KakaoCallReport) -> Void
    ) {
        self.loop = loop
        self.pool = pool
        self.client = client
        audit = AuditLog(pool: pool, logger: logger)
        kakaoSettings = kakao
        self.onCall = onCall
    }

    /// Returns the client for calls of one purpose.
    package func kakao(_ budget: KakaoBudget) -> KakaoClient {
        KakaoClient(settings: kakaoSettings, client: client, budget: budget, onCall: onCall)
    }
}
