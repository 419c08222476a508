import EventLoop
import HTTPServer
import HTTPTypes
import Journal
import Postgres
import Runtime
import Schemas
import ServiceKit

/// Whether requests may be sent to this server. It must not be shutting down, and the database must be ready. With an open
/// journal, the database may also be unreachable, or reject a server that was ready before.
///
/// Load balancers drop a server that is not ready. A problem that all servers share and can bear therefore does not
/// count: a halted sender or, with a journal, an unreachable database. There is one instance for each event loop.
actor Readiness {
    /// The state of the database, as far as requests are concerned.
    enum Database: String, CaseIterable, Sendable {
        case ok
        /// The database responds, but migrations are pending or in progress.
        case migrating
        case unreachable
        /// The database responds, but refuses this server: the database name, role, password or privileges are wrong.
        case refused
    }

    /// Whether requests may be sent, with the state of each part.
    struct Report: Sendable {
        let isReady: Bool
        let database: Database
        /// `nil` if there is no journal.
        let isJournalOpen: Bool?
        let sender: String
        let isShuttingDown: Bool

        static let shape = Shape<Report>(
            "Readiness",
            [
                .member("ready", .boolean, "Whether requests may be sent.", \.isReady),
                .member("checks", checks.kind, "The state of each part.") { $0 },
            ]
        )

        private static let checks = Shape<Report>(
            "ReadinessChecks",
            [
                .member("database", .choice, "The state of the database.", \.database),
                .member("journal", .text(oneOf: ["ok", "closed", "none"]), "The journal of Kakao's calls.") { report in
                    report.isJournalOpen.map { $0 ? "ok" : "closed" } ?? "none"
                },
                .member("sender", .text, "The state of the sender, which does not decide about readiness.", \.sender),
                .optional("server", .text(oneOf: ["shutting_down"]), "Present while the server shuts down.") { report in
                    report.isShuttingDown ? "shutting_down" : nil
                },
            ]
        )
    }

    /// How long a result is reused. The route needs no key, so requests must cost nothing.
    private static let lifetime = Duration.seconds(1)
    /// The SQLSTATE classes invalid authorization, unknown database and access rule violation.
    private static let refusals: Set<Substring> = ["28", "3D", "42"]
    /// The time limit for the database to respond.
    private static let limit = Duration.seconds(1)

    nonisolated let unownedExecutor: UnownedSerialExecutor
    private let pool: PostgresPool
    private let migrator: Migrator
    private let gate: StartupGate
    private let journal: Journal?
    private let availability: KakaoAvailability
    private let control: SenderControl
    /// The latest response, or the one being determined, and its expiry by the event loop's clock.
    private var latest: (response: Task<Response, Never>, end: UInt64)?

    init(
        pool: PostgresPool,
        migrator: Migrator,
        gate: StartupGate,
        journal: Journal?,
        availability: KakaoAvailability,
        control: SenderControl
    ) {
        self.pool = pool
        unownedExecutor = pool.loop.asUnownedSerialExecutor()
        self.migrator = migrator
        self.gate = gate
        self.journal = journal
        self.availability = availability
        self.control = control
    }

    /// Returns 200 or 503, with the state of each part.
    func response() async -> Response {
        if let latest, pool.loop.now < latest.end { return await latest.response.value }
        // A separate task continues if the client disconnects.
        let response = Task(executorPreference: pool.loop) { await self.determineResponse() }
        latest = (response, pool.loop.now + Self.lifetime.wholeMilliseconds)
        return await response.value
    }

    private nonisolated func determineResponse() async -> Response {
        let database = await database()
        let isJournalOpen = journal?.status.isOpen
        // A load balancer sends no calls to a server that is not ready. No call would therefore notice that the disk
        // has free space again.
        journal?.reopen()
        let isReady =
            switch database {
            case .ok: !gate.isShuttingDown
            case .migrating: false
            case .unreachable: isJournalOpen == true && !gate.isShuttingDown
            // A server that was ready before may get access again, and its journal keeps Kakao's calls until then. A
            // server that never was ready is misconfigured.
            case .refused: gate.isOpen && isJournalOpen == true && !gate.isShuttingDown
            }
        let report = Report(
            isReady: isReady,
            database: database,
            isJournalOpen: isJournalOpen,
            sender: SenderStatus(availability, database == .ok ? await control.stop() : nil).state.rawValue,
            isShuttingDown: gate.isShuttingDown
        )
        var response = Response.json(Report.shape.json(report), status: isReady ? .ok : .serviceUnavailable)
        if !isReady { response.headerFields[.retryAfter] = "1" }
        return response
    }

    /// Queries the database for pending migrations.
    private nonisolated func database() async -> Database {
        do {
            let pending = try await pool.loop.run(within: Self.limit) { [pool, migrator] in
                try await migrator.pending(pool)
            }
            guard let pending else { return .unreachable }
            // While this server runs, a newer one may replace functions, which suit this server too.
            let isComplete = gate.isOpen ? pending.migrations.isEmpty : pending.isEmpty
            return isComplete && gate.isOpen ? .ok : .migrating
        } catch let error as PostgresError where error.code == .migration {
            // A newer server has run migrations while this server was running. This server continues.
            return gate.isOpen ? .ok : .migrating
        } catch let error as PostgresError where error.code == .unsuitable {
            return .refused
        } catch let error as PostgresError where Self.refusals.contains(error.sqlStateClass ?? "") {
            return .refused
        } catch {
            return .unreachable
        }
    }
}
