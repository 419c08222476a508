import Postgres
import Runtime

/// The report on devices for operators.
struct DeviceMonitoring: Sendable {
    private static let unsettled = Metric(
        "kakao_push_devices_unsettled",
        .gauge,
        "Devices with changes pending at Kakao, counted up to \(Backlog.limit)."
    )

    private static let refusedDeregistrations = Metric(
        "kakao_push_refused_deregistrations_total",
        .counter,
        "Deregistrations that Kakao refused although it still lists the token."
    )

    private let pendingDevices: CachedQuery<Int64>
    private let counts: LoopCounts<DeviceCount>

    init(pool: PostgresPool, counts: LoopCounts<DeviceCount>) {
        self.counts = counts
        pendingDevices = CachedQuery(pool) { try await $0.read(CountPendingDevices(limit: Backlog.limit)).first ?? 0 }
    }

    func report() async -> Monitoring.Report {
        let refused = Double(await counts.sums()[.refusedDeregistration] ?? 0)
        let refusedDeregistrations = Self.refusedDeregistrations.reading(refused)
        guard let count = await pendingDevices.value() else {
            return Monitoring.Report(metrics: [refusedDeregistrations], isDatabaseUp: false)
        }
        return Monitoring.Report(metrics: [refusedDeregistrations, Self.unsettled.reading(Double(count))])
    }
}

/// The incidents with devices that the server counts.
enum DeviceCount: Sendable {
    /// Kakao refused to deregister a token that it still lists.
    case refusedDeregistration
}

/// Counts the devices with a change that is pending at Kakao, up to a limit. Reads a partial index, which contains no
/// other devices.
struct CountPendingDevices: PostgresStatement {
    static let sql: SQL = """
        SELECT count(*)
        FROM (
            SELECT
            FROM devices
            WHERE kakao_revision < revision
            ORDER BY next_attempt_at
            LIMIT $1
        ) AS unsettled
        """

    let limit: Int64

    var parameters: [PostgresValue] { [.int64(limit)] }
    static func decode(_ row: PostgresRow) throws -> Int64 { try row.decode(Int64.self) }
}
