import EventLoop
import HTTPServer
import HTTPTypes
import Journal
import Postgres
import Runtime
import Schemas
import ServiceKit

/// Whether requests may be sent to this server. It must not be shutting down, and the database must be ready and commit.
/// With an open journal, a server that was ready before stays so while the database is unreachable, rejects it, or does not
/// commit. A server that never was ready is misconfigured: a rolling update must not continue with it.
///
/// Load balancers drop a server that is not ready. A problem that all servers share and can bear therefore does not
/// count: a halted sender or, with a journal, an unreachable database. There is one instance for each event loop.
actor Readiness {
    /// The state of the database, as far as requests are concerned.
    enum Database: String, CaseIterable, Sendable {
        case ok
        /// The database responds, but migrations are pending or in progress.
        case migrating
        /// The database is unreachable, and has been since this process started.
        case neverReached = "never_reached"
        case unreachable
        /// The database responds, but refuses this server: the database name, role, password or privileges are wrong.
        case refused
        /// The database can be read, but accepts no changes.
        case readOnly = "read_only"
        /// The database can be read, but commits fail, or take longer than some seconds.
        case notCommitting = "not_committing"
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
    private let health: CommitHealth
    private let journal: Journal?
    private let unverifiedEvents: Journal?
    private let availability: KakaoAvailability
    private let control: SenderControl
    /// The latest response, or the one being determined, its expiry by the event loop's clock, and the phase of the server.
    private var latest: (response: Task<Response, Never>, end: UInt64, phase: StartupGate.Phase)?

    init(
        pool: PostgresPool,
        migrator: Migrator,
        gate: StartupGate,
        health: CommitHealth,
        journal: Journal?,
        unverifiedEvents: Journal?,
        availability: KakaoAvailability,
        control: SenderControl
    ) {
        self.pool = pool
        unownedExecutor = pool.loop.asUnownedSerialExecutor()
        self.migrator = migrator
        self.gate = gate
        self.health = health
        self.journal = journal
        self.unverifiedEvents = unverifiedEvents
        self.availability = availability
        self.control = control
    }

    /// Returns 200 or 503, with the state of each part.
    func response() async -> Response {
        let phase = gate.phase
        if let latest, pool.loop.now < latest.end, latest.phase == phase {
            return await latest.response.value
        }
        // A separate task continues if the client disconnects.
        let response = Task(executorPreference: pool.loop) { await self.determineResponse() }
        latest = (response, pool.loop.now + Self.lifetime.wholeMilliseconds, phase)
        return await response.value
    }

    private nonisolated func determineResponse() async -> Response {
        let database = await state()
        let isJournalOpen = journal?.status.isOpen
        // A load balancer sends no calls to a server that is not ready. No call would therefore notice that the disk
        // has free space again.
        journal?.reopen()
        unverifiedEvents?.reopen()
        let isReady =
            switch database {
            case .ok: !gate.isShuttingDown
            case .migrating, .neverReached: false
            // A server that was ready before will get access again, and its journal keeps Kakao's calls until then.
            case .unreachable, .refused, .readOnly, .notCommitting:
                gate.isOpen && isJournalOpen == true && !gate.isShuttingDown
            }
        // Without the database, the answer must not wait for it.
        let position = database == .ok ? await control.position() : control.lastKnownPosition
        let report = Report(
            isReady: isReady,
            database: database,
            isJournalOpen: isJournalOpen,
            sender: SenderStatus(availability, position).state.rawValue,
            isShuttingDown: gate.isShuttingDown
        )
        var response = Response.json(Report.shape.json(report), status: isReady ? .ok : .serviceUnavailable)
        if !isReady { response.headerFields[.retryAfter] = "1" }
        return response
    }

    /// Returns the state of the database: whether it can be read, and if so, whether it commits.
    private nonisolated func state() async -> Database {
        let database = await database()
        guard database == .ok || database == .migrating else { return database }
        return switch health.state {
        case .committing: database
        case .readOnly: .readOnly
        case .stalled: .notCommitting
        }
    }

    /// Queries the database for pending migrations.
    private nonisolated func database() async -> Database {
        do {
            let pending = try await pool.loop.run(within: Self.limit) { [pool, migrator] in
                try await migrator.pending(pool)
            }
            guard let pending else { return unreachable }
            // While this server runs, a newer one may replace functions, which suit this server too.
            let isComplete = gate.isOpen ? pending.migrations.isEmpty : pending.isEmpty
            return isComplete && gate.isOpen ? .ok : .migrating
        } catch let error as PostgresError where error.code == .migration {
            // The records of migrations are not those that this server started with. It continues.
            return gate.isOpen ? .ok : .migrating
        } catch let error as PostgresError where error.code == .unsuitable {
            return .refused
        } catch let error as PostgresError where Self.refusals.contains(error.sqlStateClass ?? "") {
            return .refused
        } catch {
            return unreachable
        }
    }

    private nonisolated var unreachable: Database { gate.isOpen ? .unreachable : .neverReached }
}
