import Endpoints
import FoundationEssentials
import HTTPServer
import HTTPTypes
package import JSON
package import Postgres
import Runtime
import Schemas

/// `GET /v1/time-zone`: the time zone of the people who operate the server, so that a client can show and read times as they
/// do, without a database of time zones of its own.
///
/// One instance serves all event loops of a server.
struct TimeZoneRoutes: RouteCollection {
    static let title = "Time zone"
    static let operations = [
        Operation(
            "getTimeZone",
            .get,
            "/v1/time-zone",
            .operatorWithAny([.read, .send, .operate, .approve, .accounts, .devices, .talk]),
            "Returns the time zone of `pushes.time_zone`, with its changes of ten years back and five years ahead.",
            answers: [.json(.ok, ZoneHistory.shape, "The time zone.")],
            handler: show
        )
    ]

    /// PostgreSQL's knowledge of time zones changes only with its updates.
    private static let lifetime = Duration.seconds(3600)

    private let zone: CachedQuery<ZoneHistory>

    init(name: String, pool: PostgresPool) {
        zone = CachedQuery(pool, lifetime: Self.lifetime) { pool in try await ZoneHistory.read(name, pool) }
    }

    @Sendable private func show(_ call: Call) async throws -> Response {
        guard let zone = await zone.value() else { throw PostgresError(.unavailable) }
        return .json(ZoneHistory.shape.json(zone))
    }
}

/// A time zone's difference from UTC, which holds from a time on until the next one.
struct ZoneOffset: Sendable {
    let since: Date
    let seconds: Int32
}

/// A time zone's differences from UTC over some years.
package struct ZoneHistory: Sendable {
    private static let secondsBack = 10 * 365 * 86_400.0
    private static let secondsAhead = 5 * 365 * 86_400.0

    private let name: String
    private let offsets: [ZoneOffset]
    private let until: Date

    fileprivate static func read(_ name: String, _ pool: PostgresPool) async throws -> ZoneHistory {
        let now = Date()
        let until = now + secondsAhead
        let changes = ListZoneChanges(name: name, since: now - secondsBack, until: until)
        return ZoneHistory(name: name, offsets: try await pool.read(changes), until: until)
    }

    /// Returns the response of `GET /v1/time-zone`, for a command that has a database and no server.
    package static func json(_ name: String, _ pool: PostgresPool) async throws -> JSONValue {
        try JSONValue(parsing: shape.json(try await read(name, pool)))
    }

    fileprivate static let shape = Shape<ZoneHistory>(
        "TimeZone",
        [
            .member("name", .text, "Its name: the setting `pushes.time_zone`.", \.name),
            .array("offsets", offsetShape.kind, "Its differences from UTC, the earliest first.", \.offsets),
            .member("until", .time, "The time until which the last of them is known to hold.", \.until),
        ]
    )

    private static let offsetShape = Shape<ZoneOffset>(
        "TimeZoneOffset",
        [
            .member("since", .time, "The time from which on it holds.", \.since),
            .member("seconds", Kind<Int32>.number, "The seconds by which the zone is ahead of UTC.", \.seconds),
        ]
    )
}

// MARK: Statements

/// Lists the differences of a time zone from UTC within a range of time, each with the minute in which it begins; the first begins
/// with the range.
struct ListZoneChanges: PostgresStatement {
    static let sql: SQL = """
        WITH day AS (
            SELECT moment, utc_offset, lag(utc_offset) OVER (ORDER BY moment) AS earlier
            FROM generate_series($2, $3, interval '24 hours') AS moment
            CROSS JOIN LATERAL (SELECT (moment AT TIME ZONE $1) - (moment AT TIME ZONE 'UTC') AS utc_offset) AS given
        )
        SELECT
            CASE
                WHEN earlier IS NULL THEN moment
                ELSE (
                    SELECT min(minute)
                    FROM generate_series(date_trunc('minute', moment - interval '24 hours'), moment, interval '1 minute') AS minute
                    WHERE (minute AT TIME ZONE $1) - (minute AT TIME ZONE 'UTC') = utc_offset
                )
            END AS since,
            extract(epoch FROM utc_offset)::integer
        FROM day
        WHERE earlier IS DISTINCT FROM utc_offset
        ORDER BY since
        """

    let name: String
    let since: Date
    let until: Date

    var parameters: [PostgresValue] { [.text(name), .timestamp(since), .timestamp(until)] }

    static func decode(_ row: PostgresRow) throws -> ZoneOffset {
        let (since, seconds) = try row.decode(Date.self, Int32.self)
        return ZoneOffset(since: since, seconds: seconds)
    }
}
