import Endpoints
import FoundationEssentials
import HTTPServer
import HTTPTypes
import Journal
import Locking
import Postgres
import Runtime
import Schemas
import ServiceKit

/// `GET /v1/status`: the state of the servers and of what they depend on, for operators.
///
/// One instance serves all event loops of a server.
struct StatusRoutes: RouteCollection {
    static let path = "/v1/status"

    static let title = "Status"
    static let operations = [
        Operation(
            "getStatus",
            .get,
            path,
            .monitoring,
            "Shows the state of the servers and of what they depend on. With `Cache-Control: max-age=1` the state may be a second old, which costs the server less.",
            answers: [.json(.ok, ServiceStatus.shape, "The state.")],
            handler: show
        )
    ]

    private let server: ServerContext
    private let shared: CachedQuery<SharedStatus>
    /// The latest status and when its reading began, shared by all event loops. Each open page asks for the status again and again.
    private let latest = Locked<(status: Response, readAt: ContinuousClock.Instant)?>(nil)

    init(server: ServerContext) {
        self.server = server
        shared = CachedQuery(server.background.pool, SharedStatus.read)
    }

    @Sendable private func show(_ call: Call) async throws -> Response {
        let now = ContinuousClock.now
        if call.request.acceptsAge(ofSeconds: 1), let latest = latest.withLock({ $0 }),
            now - latest.readAt < .seconds(1)
        {
            return latest.status
        }
        let status = Response.json(ServiceStatus.shape.json(await status()))
        // One that was begun earlier may end later.
        latest.withLock { if ($0?.readAt ?? now) <= now { $0 = (status, now) } }
        return status
    }

    private func status() async -> ServiceStatus {
        async let position = server.senderControl.position()
        async let shared = shared.value()
        let report = await server.monitoring.report()
        async let pushes = ShownWork(report.pushes)
        async let messages = ShownWork(report.messages)
        var waiting = 0
        for pool in server.pools { waiting += await pool.statistics().waiting }
        let unfinishedPushes = await pushes
        return ServiceStatus(
            sender: SenderStatus(server.availability, await position),
            backlog: report.backlog,
            pushes: unfinishedPushes,
            messages: await messages,
            webhookEndpoints: report.webhookEndpoints,
            // The report is up to 5 s old; the pushes were read just now.
            isDatabaseUp: report.isDatabaseUp && unfinishedPushes != nil,
            commits: server.lostCommits.health.state,
            replica: server.replica?.report,
            waitingForDatabase: Int64(waiting),
            journal: server.journal.map {
                JournalStatus(calls: $0.status, unverified: server.unverifiedEvents?.status)
            },
            kakao: server.availability.kakaoState,
            kakaoReason: server.availability.openCause?.reason,
            lastCall: server.availability.lastCall,
            foreignResponse: server.availability.lastForeignResponse,
            recentCalls: server.availability.recentCalls,
            shared: await shared
        )
    }
}

/// The part of the status that is the same on all servers that share a database.
private struct SharedStatus: Sendable {
    let servers: [ListServers.Row]
    /// The calls to Kakao in this month.
    let kakaoCalls: Int64
    let waits: [DatabaseWait]

    @Sendable static func read(_ pool: PostgresPool) async throws -> SharedStatus {
        async let calls = pool.read(ReadKakaoCalls())
        async let waits = pool.read(ListDatabaseWaits())
        return SharedStatus(
            servers: try await pool.read(ListServers()),
            kakaoCalls: try await calls.first ?? 0,
            waits: try await waits
        )
    }
}

/// The state of this server's journals of Kakao's calls.
private struct JournalStatus: Sendable {
    let calls: Journal.Status
    /// The state of the journal of account events that cannot be verified yet.
    let unverified: Journal.Status?
}

/// The state of the service, as operators see it.
private struct ServiceStatus: Sendable {
    let sender: SenderStatus
    /// `nil` if the database does not respond.
    let backlog: Backlog?
    /// Those that have not ended; `nil` if the database does not respond.
    let pushes: ShownWork?
    let messages: ShownWork?
    let webhookEndpoints: [WebhookEndpointHealth]
    let isDatabaseUp: Bool
    let commits: CommitHealth.State
    /// `nil` if there is none.
    let replica: ReplicaHealth.Report?
    let waitingForDatabase: Int64
    /// `nil` if there is no journal.
    let journal: JournalStatus?
    let kakao: KakaoAvailability.KakaoState
    let kakaoReason: String?
    let lastCall: KakaoAvailability.LastCall?
    let foreignResponse: ForeignResponse?
    let recentCalls: RecentCalls.Totals
    /// `nil` if the database does not respond.
    let shared: SharedStatus?

    static let shape = Shape<ServiceStatus>(
        "Status",
        [
            .member("sender", SenderStatus.shape.kind, "The sender of pushes and KakaoTalk messages.", \.sender),
            .member("backlog", backlogShape.kind, "What waits to be sent.") { $0 },
            .nullable(
                "pushes",
                ShownWork.pushes.kind,
                "The pushes that have not ended; null if the database does not respond.",
                \.pushes
            ),
            .nullable(
                "messages",
                ShownWork.messages.kind,
                "The KakaoTalk messages that have not ended; null if the database does not respond.",
                \.messages
            ),
            .array(
                "webhook_endpoints",
                webhookEndpointShape.kind,
                "The endpoints of webhooks, to a minute; none if the database does not respond.",
                \.webhookEndpoints
            ),
            .nullable(
                "journal",
                journalShape.kind,
                "This server's journal of Kakao's calls; null if there is none.",
                \.journal
            ),
            .member("database", databaseShape.kind, "PostgreSQL.") { $0 },
            .member("kakao", kakaoShape.kind, "Kakao.") { $0 },
            .array(
                "servers",
                serverShape.kind,
                "The servers that are running, the oldest first: only this one if the database does not respond.",
                \.servers
            ),
        ]
    )

    private static let backlogShape = Shape<ServiceStatus>(
        "Backlog",
        [
            .nullable("batches", .count, "The waiting batches, counted up to 100,000.", \.backlog?.batches),
            .nullable(
                "oldest_seconds",
                .seconds,
                "For how long the oldest of them has been due.",
                \.backlog?.oldestSeconds
            ),
        ]
    )

    private static let webhookEndpointShape = Shape<WebhookEndpointHealth>(
        "WebhookEndpointStatus",
        [
            .member("name", .text, "The name.", \.name),
            .member("state", .text, "`delivering`, `failing` or `gone`.", \.state),
            .member("since", .time, "Since when it is in this state.", \.since),
            .nullable("last_error", .text, "Its last error.", \.lastError),
            .member("lag_seconds", .seconds, "For how long its oldest webhook has been due.", \.lagSeconds),
        ]
    )

    private static let journalShape = Shape<JournalStatus>(
        "JournalStatus",
        [
            .member("open", .boolean, "Whether calls can be stored in it.", \.calls.isOpen),
            .member(
                "unverified_open",
                .boolean,
                "Whether account events that cannot be verified yet can be stored in `unverified/`."
            ) { $0.unverified?.isOpen == true },
            .member("records", .count, "The calls that wait to be stored in PostgreSQL.") { Int64($0.calls.records) },
            .member("oldest_seconds", .seconds, "The age of the oldest of them.", \.calls.oldestSeconds),
            .member(
                "rejected",
                .count,
                "The files in `rejected/`: calls that PostgreSQL has rejected, and damaged files."
            ) { Int64($0.calls.rejected) },
        ]
    )

    private static let databaseShape = Shape<ServiceStatus>(
        "DatabaseStatus",
        [
            .member("up", .boolean, "Whether it responds and commits.", \.isDatabaseUp),
            .member("state", .choice, "Its state, as far as this server knows.", \.databaseState),
            .member(
                "waiting",
                .count,
                "The statements of this server that wait to be sent. More than 0 for minutes: PostgreSQL is the bottleneck.",
                \.waitingForDatabase
            ),
            .array(
                "waits",
                waitShape.kind,
                "What the sessions of all servers wait for, if they have for a second or longer.",
                \.waits
            ),
            .nullable(
                "replica",
                replicaShape.kind,
                "The replica of `database.read_url`, as this server sees it; null if none is set.",
                \.replica
            ),
        ]
    )

    private static let replicaShape = Shape<ReplicaHealth.Report>(
        "ReplicaStatus",
        [
            .member(
                "state",
                .choice,
                "Whether it is read: `behind` by more than a minute and `unreachable` are not.",
                \.state
            ),
            .nullable(
                "lag_seconds",
                .seconds,
                "How far it is behind, to about 5 s; null if that is unknown.",
                \.lag?.inSeconds
            ),
        ]
    )

    private static let waitShape = Shape<DatabaseWait>(
        "DatabaseWait",
        [
            .member("event", .text, "The wait event of PostgreSQL: `SyncRep` is a synchronous standby.", \.event),
            .member("sessions", .count, "The number of sessions.", \.sessions),
            .member("seconds", .seconds, "For how long the oldest of their statements has run.", \.seconds),
        ]
    )

    /// The state of PostgreSQL.
    fileprivate enum DatabaseState: String, CaseIterable, Sendable {
        case ok
        case unreachable
        case readOnly = "read_only"
        case notCommitting = "not_committing"
    }

    private var databaseState: DatabaseState {
        switch commits {
        case .readOnly: .readOnly
        case .stalled: shared == nil ? .unreachable : .notCommitting
        case .committing: isDatabaseUp ? .ok : .unreachable
        }
    }

    private var waits: [DatabaseWait] { shared?.waits ?? [] }

    private static let kakaoShape = Shape<ServiceStatus>(
        "KakaoStatus",
        [
            .member("state", .choice, "Whether Kakao responds to this server.", \.kakao),
            .nullable("reason", .text, "Why calls are in vain; null if they are not.", \.kakaoReason),
            .nullable("last_call_at", .time, "When the last call ended.", \.lastCall?.at),
            .nullable("last_error", .text, "The last error.", \.lastCall?.lastError?.rawValue),
            .nullable("last_error_at", .time, "When it happened.", \.lastCall?.lastErrorAt),
            .nullable(
                "foreign_response",
                ForeignResponse.shape.kind,
                "The last response of something else in Kakao's place; null if there was none.",
                \.foreignResponse
            ),
            .member(
                "calls",
                .count,
                "The calls of this server in the last \(RecentCalls.minutes) minutes.",
                \.recentCalls.calls
            ),
            .member(
                "failed_calls",
                .count,
                "Those that Kakao did not answer, or answered with an error that is not due to the request.",
                \.recentCalls.failed
            ),
            .nullable(
                "mean_milliseconds",
                .count,
                "How long they took on average.",
                \.recentCalls.meanMilliseconds
            ),
            .nullable(
                "calls_this_month",
                .count,
                "The calls of all servers that Kakao has answered since the month began in Seoul, to a minute.",
                \.shared?.kakaoCalls
            ),
            .member("calls_per_month", .count, "The calls that Kakao allows in a month without a contract.") { _ in
                KakaoAvailability.monthlyQuota
            },
        ]
    )

    private static let serverShape = Shape<ListServers.Row>(
        "Server",
        [
            .member("host", .text, "The name of the machine.", \.host),
            .member("version", .text, "The version of the program.", \.version),
            .member("uptime_seconds", .count, "The seconds since it started.") { server in
                Int64(max(0, -server.startedAt.timeIntervalSinceNow))
            },
        ]
    )

    private var servers: [ListServers.Row] {
        if let servers = shared?.servers, !servers.isEmpty { return servers }
        return [
            ListServers.Row(host: ThisServer.host, version: ServerVersion.current, startedAt: ThisServer.startedAt)
        ]
    }
}

extension Journal.Status {
    /// The age in seconds of the oldest record that waits to be stored; 0 when none does.
    var oldestSeconds: Double { oldest.map { max(0, -$0.timeIntervalSinceNow) } ?? 0 }
}
