internal import EventLoop
internal import FoundationEssentials
internal import Glibc
internal import HTTPServer
internal import HTTPTypes
internal import Journal
internal import Schemas
internal import ServiceKit

/// `GET /v1/status`: the state of this server and its dependencies, for operators.
///
/// One instance serves all event loops of a server.
struct StatusRoutes: RouteCollection {
    static let path = "/v1/status"

    static let title = "Status"
    static let operations = [
        Operation(
            OperationDeclaration(
                "getStatus",
                .get,
                path,
                .monitoring,
                "Shows the state of the server and of what it depends on.",
                answers: [.json(.ok, ServiceStatus.shape, "The state.")]
            ),
            handler: show
        )
    ]

    let server: ServerContext
    /// When this server started.
    let startedAt = MonotonicTime.now

    @Sendable private func show(_ call: Call) async throws -> Response {
        let report = await server.monitoring.report()
        let status = ServiceStatus(
            sender: server.availability.senderState,
            refusalReason: server.availability.refusalReason,
            backlog: report.backlog,
            isDatabaseUp: report.isDatabaseUp,
            journal: server.journal?.status,
            kakao: server.availability.kakaoState,
            lastCall: server.availability.lastCall,
            servers: [
                ServiceStatus.Server(
                    host: Self.host,
                    version: ServerVersion.current,
                    uptimeSeconds: (MonotonicTime.now - startedAt).components.seconds
                )
            ]
        )
        return .json(ServiceStatus.shape.json(status))
    }

    private static let host: String = {
        var buffer = [CChar](repeating: 0, count: 256)
        guard gethostname(&buffer, buffer.count - 1) == 0 else { return "localhost" }
        return String(decoding: buffer.prefix { $0 != 0 }.map { UInt8(bitPattern: $0) }, as: UTF8.self)
    }()
}

/// The state of the service, as operators see it.
private struct ServiceStatus: Sendable {
    struct Server: Sendable {
        let host: String
        let version: String
        let uptimeSeconds: Int64

        static let shape = Shape<Server>(
            "Server",
            [
                .member("host", .text, "The name of the machine.", \.host),
                .member("version", .text, "The version of the program.", \.version),
                .member("uptime_seconds", .count, "The seconds since it started.", \.uptimeSeconds),
            ]
        )
    }

    let sender: KakaoAvailability.SenderState
    let refusalReason: String?
    /// `nil` if the database does not respond.
    let backlog: Backlog?
    let isDatabaseUp: Bool
    /// `nil` if there is no journal.
    let journal: Journal.Status?
    let kakao: KakaoAvailability.KakaoState
    let lastCall: KakaoAvailability.LastCall?
    let servers: [Server]

    static let shape = Shape<ServiceStatus>(
        "Status",
        [
            .member("sender", senderShape.kind, "The sender of pushes.") { $0 },
            .member("backlog", backlogShape.kind, "What waits to be sent.") { $0 },
            .nullable("journal", journalShape.kind, "The journal of Kakao's calls; null if there is none.", \.journal),
            .member("database", databaseShape.kind, "PostgreSQL.") { $0 },
            .member("kakao", kakaoShape.kind, "Kakao.") { $0 },
            .array("servers", Server.shape.kind, "The servers.", \.servers),
        ]
    )

    private static let senderShape = Shape<ServiceStatus>(
        "SenderStatus",
        [
            .member(
                "state",
                .text(oneOf: KakaoAvailability.SenderState.allCases.map(\.rawValue)),
                "Its state.",
                \.sender.rawValue
            ),
            .nullable("reason", .text, "Why it does not send.") {
                $0.refusalReason ?? ($0.sender == .waiting ? "A quota at Kakao is used up." : nil)
            },
            .nullable("remedy", .text, "What to do.", \.sender.remedy),
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

    private static let journalShape = Shape<Journal.Status>(
        "JournalStatus",
        [
            .member("open", .boolean, "Whether calls can be stored in it.", \.isOpen),
            .member("records", .count, "The calls that wait to be stored in PostgreSQL.") { Int64($0.records) },
            .member("oldest_seconds", .seconds, "The age of the oldest of them.", \.oldestSeconds),
            .member("rejected", .count, "The calls that PostgreSQL has rejected.") { Int64($0.rejected) },
        ]
    )

    private static let databaseShape = Shape<ServiceStatus>(
        "DatabaseStatus",
        [.member("up", .boolean, "Whether it responds.") { $0.isDatabaseUp }]
    )

    private static let kakaoShape = Shape<ServiceStatus>(
        "KakaoStatus",
        [
            .member("state", .choice, "Whether Kakao responds.", \.kakao),
            .nullable("last_call_at", .time, "When the last call ended.", \.lastCall?.at),
            .nullable("last_error", .text, "The last error.", \.lastCall?.lastError?.label),
            .nullable("last_error_at", .time, "When it happened.", \.lastCall?.lastErrorAt),
        ]
    )
}

extension Journal.Status {
    /// The age in seconds of the oldest record that waits to be stored; 0 when none does.
    var oldestSeconds: Double { oldest.map { max(0, -$0.timeIntervalSinceNow) } ?? 0 }
}

extension KakaoAvailability.SenderState {
    /// The advice for an operator; `nil` if nothing is wrong.
    fileprivate var remedy: String? {
        switch self {
        case .running: nil
        case .waiting: "Wait, or ask Kakao for a larger quota. The sender resumes by itself."
        case .halted:
            "Check kakao.admin_key and the app's settings at Kakao (push-server doctor), then resume the halted pushes."
        }
    }
}
