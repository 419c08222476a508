internal import EventLoop
internal import HTTPServer
internal import HTTPTypes
internal import JSON
internal import Journal
internal import Postgres

/// Whether requests may be sent to this server: it is not shutting down, and the database is ready, or unreachable while the journal is open.
///
/// Load balancers drop a server that is not ready, so that nothing counts that concerns all servers alike and that they can bear: neither a
/// sender that Kakao has halted nor, with a journal, a database that is away. One for each loop.
actor Readiness {
    /// The state of the database, as far as requests are concerned.
    enum Database: String, Sendable {
        case ok
        /// It answers, but migrations have not run, or run at the moment.
        case migrating
        case unreachable
        /// It answers, and refuses this server: the database, role, password or rights are wrong.
        case refused
    }

    /// How long an answer counts. Requests need no key, so that they must cost nothing.
    private static let lifetime = Duration.seconds(1)
    /// SQLSTATE classes: invalid authorization, no such database, access rule violation.
    private static let refusals: Set<Substring> = ["28", "3D", "42"]
    /// How long the database may take to answer.
    private static let limit = Duration.seconds(1)

    nonisolated let unownedExecutor: UnownedSerialExecutor
    private let pool: PostgresPool
    private let migrator: Migrator
    private let gate: StartupGate
    private let journal: Journal?
    private let availability: KakaoAvailability
    /// The last answer, or the one that is being found out, and when it expires by the loop's clock.
    private var latest: (response: Task<Response, Never>, end: UInt64)?

    init(pool: PostgresPool, migrator: Migrator, gate: StartupGate, journal: Journal?, availability: KakaoAvailability)
    {
        self.pool = pool
        unownedExecutor = pool.loop.asUnownedSerialExecutor()
        self.migrator = migrator
        self.gate = gate
        self.journal = journal
        self.availability = availability
    }

    /// 200 or 503, and the state of each part.
    func response() async -> Response {
        if let latest, pool.loop.now < latest.end { return await latest.response.value }
        // A task of its own: the client may go away.
        let response = Task(executorPreference: pool.loop) { await self.findOut() }
        latest = (response, pool.loop.now + Self.lifetime.wholeMilliseconds)
        return await response.value
    }

    private nonisolated func findOut() async -> Response {
        let database = await database()
        let isJournalOpen = journal?.status.isOpen
        // A balancer sends no calls to a server that is not ready, so that no call finds out that there is room on the disk again.
        journal?.reopen()
        let isReady =
            switch database {
            case .ok: !gate.isShuttingDown
            case .migrating: false
            case .unreachable: isJournalOpen == true && !gate.isShuttingDown
            // A server that has worked before may be let in again, and its journal keeps Kakao's calls until then. One that never has is misconfigured.
            case .refused: gate.isOpen && isJournalOpen == true && !gate.isShuttingDown
            }
        var json = JSONWriter()
        json.object { json in
            json.member("ready", isReady)
            json.object("checks") { json in
                json.member("database", database.rawValue)
                json.member("journal", isJournalOpen.map { $0 ? "ok" : "closed" } ?? "none")
                json.member("sender", availability.senderState.label)
                if gate.isShuttingDown { json.member("server", "shutting_down") }
            }
        }
        var response = Response.json(json.bytes, status: isReady ? .ok : .serviceUnavailable)
        if !isReady { response.headerFields[.retryAfter] = "1" }
        return response
    }

    /// A round trip, and whether every migration has run.
    private nonisolated func database() async -> Database {
        do {
            let pending = try await pool.loop.run(within: Self.limit) { [pool, migrator] in
                try await migrator.pending(pool)
            }
            guard let pending else { return .unreachable }
            return pending.isEmpty && gate.isOpen ? .ok : .migrating
        } catch let error as PostgresError where error.code == .migration {
            // Migrations of a newer server have run beside this one, which goes on.
            return gate.isOpen ? .ok : .migrating
        } catch let error as PostgresError where Self.refusals.contains(error.sqlStateClass ?? "") {
            return .refused
        } catch {
            return .unreachable
        }
    }
}
