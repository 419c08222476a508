internal import HTTPServer
internal import HTTPTypes
internal import Locking
internal import Postgres
internal import PrometheusMetrics

/// `/metrics`: what Prometheus reads, with a key that may `read`.
///
/// One for all loops of a server: it is asked seldom, and what it tells is the server's as a whole.
final class MetricsRoutes: Sendable {
    static let path = "/metrics"
    /// How long a key that was found in force reads on while nobody can say whether it still is.
    private static let admissionTime = Duration.seconds(3600)
    /// More readers than anybody has; beyond it all are forgotten.
    private static let maximumAdmissions = 16
    private static let headerFields: HTTPFields = [.contentType: ExpositionText.contentType]

    private let authenticator: Authenticator
    private let metrics: ServerMetrics
    private let standing: KakaoStanding
    private let pools: [PostgresPool]
    private let queue: QueueDepth
    /// When each `Authorization`, by its digest, was last let in.
    private let admissions = Locked<[[UInt8]: ContinuousClock.Instant]>([:])

    /// - Parameters:
    ///   - pools: Those of all loops; the first has its keys and counts looked up.
    init(
        authenticator: Authenticator,
        metrics: ServerMetrics,
        standing: KakaoStanding,
        pools: [PostgresPool],
        queue: QueueDepth
    ) {
        self.authenticator = authenticator
        self.metrics = metrics
        self.standing = standing
        self.pools = pools
        self.queue = queue
    }

    func add(to router: inout Router) {
        router.on(.get, Self.path, show)
    }

    private func show(_ request: Request) async throws -> Response {
        try await requireReader(request)
        async let process = ProcessStatistics.read()
        let snapshot = await ServerMetrics.Snapshot(
            sender: standing.senderState,
            queue: queue.counts(),
            databaseStatements: pools.reduce(0) { $0 + $1.statementCount },
            process: process
        )
        return Response(.ok, headerFields: Self.headerFields, body: metrics.text(snapshot))
    }

    /// While the database is away nobody can say whether a key is in force, and just then somebody wants to know how things are: who was
    /// let in shortly before still is.
    private func requireReader(_ request: Request) async throws {
        let digest = SHA256Digest.of(request[.authorization] ?? "")
        do {
            try await authenticator.requireOperator(request, .read)
            admissions.withLock { admissions in
                if admissions[digest] == nil, admissions.count >= Self.maximumAdmissions { admissions.removeAll() }
                admissions[digest] = .now
            }
        } catch let error as PostgresError where error.isTransient {
            let admission = admissions.withLock { $0[digest] }
            guard let admission, admission.duration(to: .now) < Self.admissionTime else { throw error }
        } catch {
            admissions.withLock { $0[digest] = nil }
            throw error
        }
    }
}
