import FoundationEssentials
import Postgres

/// The statistics of shares in PostgreSQL: counters, and the events that are not counted yet. Both are read in one snapshot, so
/// that the numbers are those of all stored events.
struct StatisticsStore: Sendable {
    let pool: PostgresPool

    /// Returns the counts of a query; `nil` for a time zone that is unknown or not whole hours from UTC.
    func read(_ query: StatisticsQuery) async throws -> [PeriodCounts]? {
        do {
            // The look-up of a name reads hundreds of files.
            if query.isOfUsualZone { return try await counts(query) }
            let check = CheckTimeZone(timeZone: query.timeZone, since: query.since, until: query.until)
            guard try await pool.read(check).first == true else { return nil }
        } catch let error as PostgresError where error.sqlState == "22023" {
            return nil
        }
        return try await counts(query)
    }

    private func counts(_ query: StatisticsQuery) async throws -> [PeriodCounts] {
        query.isOfDaysInSeoul
            ? try await pool.read(ReadShareStatisticsOfDays(query: query), mayBeBehind: true)
            : try await pool.read(ReadShareStatistics(query: query), mayBeBehind: true)
    }

    /// Counts up to `limit` events. Returns their number; 0 also while another server counts.
    func mergeEvents(limit: Int) async throws -> Int {
        try await pool.write(MergeShareEvents(limit: limit)).first.map { Int($0) } ?? 0
    }
}

/// A query of statistics.
struct StatisticsQuery: Sendable {
    /// `all`, `campaign`, `chat_type`, `template_id` or `arg.NAME`.
    let dimension: String
    let by: StatisticsPeriod
    let since: Date
    let until: Date
    let timeZone: String
    /// The number of values that are not counted together.
    let values: Int32

    fileprivate var isOfUsualZone: Bool { timeZone == "Asia/Seoul" || timeZone == "UTC" }

    /// Whether `share_statistics_days` has the periods.
    fileprivate var isOfDaysInSeoul: Bool { by == .day && timeZone == "Asia/Seoul" }
}

// MARK: Statements

/// Returns whether a time zone has this name, and is whole hours from UTC on each day of a time. PostgreSQL rejects most
/// unknown zones, but also knows other notations than names.
struct CheckTimeZone: PostgresStatement {
    static let sql: SQL = """
        SELECT EXISTS (SELECT FROM pg_timezone_names WHERE name = $1)
            AND (
                SELECT bool_and(
                    extract(minute FROM day AT TIME ZONE $1) = extract(minute FROM day AT TIME ZONE 'UTC')
                )
                FROM generate_series($2::timestamptz, $3::timestamptz + interval '1 day', '1 day') AS day
            )
        """

    let timeZone: String
    let since: Date
    let until: Date

    var parameters: [PostgresValue] { [.text(timeZone), .timestamp(since), .timestamp(until)] }
    static func decode(_ row: PostgresRow) throws -> Bool { try row.decode(Bool.self) }
}

/// Reads the counts of all periods of a query. Each period is a range of the primary key.
struct ReadShareStatistics: PostgresStatement {
    static let sql: SQL = """
        WITH counted AS (
            SELECT start, value, arrivals, landings, conversions
            FROM (
                SELECT local AT TIME ZONE $5 AS start, (local + interval '1 day') AT TIME ZONE $5 AS stop
                FROM generate_series(
                    date_trunc('day', $3::timestamptz AT TIME ZONE $5),
                    date_trunc('day', ($4::timestamptz - interval '1 microsecond') AT TIME ZONE $5),
                    '1 day'
                ) AS local
                WHERE $2 = 'day'
                UNION ALL
                SELECT hour, hour + interval '1 hour'
                FROM generate_series(date_trunc('hour', $3), $4 - interval '1 microsecond', '1 hour') AS hour
                WHERE $2 = 'hour'
            ) AS period
            CROSS JOIN LATERAL (
                SELECT value, sum(arrivals) AS arrivals, sum(landings) AS landings, sum(conversions) AS conversions
                FROM share_statistics
                WHERE dimension = $1
                    AND hour >= period.start
                    AND hour < period.stop
                GROUP BY value
            ) AS stored
            UNION ALL
            SELECT start, value, arrivals, landings, conversions
            FROM pending_share_statistics($1)
            CROSS JOIN LATERAL (
                SELECT CASE $2 WHEN 'day' THEN date_trunc('day', hour, $5) ELSE hour END AS start
            ) AS period
            WHERE start < $4
                AND start >= CASE $2 WHEN 'day' THEN date_trunc('day', $3, $5) ELSE date_trunc('hour', $3) END
        ),
        shown AS (
            SELECT value
            FROM counted
            WHERE value <> ''
            GROUP BY value
            ORDER BY sum(arrivals) DESC, sum(landings) DESC, sum(conversions) DESC, value
            LIMIT $6
        )
        SELECT to_char(start AT TIME ZONE $5, CASE $2 WHEN 'day' THEN 'YYYY-MM-DD' ELSE 'YYYY-MM-DD"T"HH24:MI' END),
            start,
            NULLIF(shown_value, ''),
            sum(arrivals)::bigint,
            sum(landings)::bigint,
            sum(conversions)::bigint
        FROM counted
        LEFT JOIN shown USING (value)
        CROSS JOIN LATERAL (
            SELECT CASE WHEN value = '' OR shown.value IS NOT NULL THEN value ELSE 'other' END AS shown_value
        ) AS choice
        GROUP BY start, shown_value
        ORDER BY start, shown_value
        """

    let query: StatisticsQuery

    var parameters: [PostgresValue] {
        [
            .text(query.dimension), .text(query.by.rawValue), .timestamp(query.since), .timestamp(query.until),
            .text(query.timeZone), .int32(query.values),
        ]
    }
    static func decode(_ row: PostgresRow) throws -> PeriodCounts { try row.decode { try PeriodCounts(&$0) } }
}

/// Reads the counts of days in Seoul, which have counters of their own.
struct ReadShareStatisticsOfDays: PostgresStatement {
    static let sql: SQL = """
        WITH stored AS NOT MATERIALIZED (
            SELECT day, value, arrivals, landings, conversions
            FROM share_statistics_days
            WHERE dimension = $1
                AND day >= ($2::timestamptz AT TIME ZONE 'Asia/Seoul')::date
                AND day <= (($3::timestamptz - interval '1 microsecond') AT TIME ZONE 'Asia/Seoul')::date
            UNION ALL
            SELECT (hour AT TIME ZONE 'Asia/Seoul')::date, value, arrivals, landings, conversions
            FROM pending_share_statistics($1)
            WHERE hour >= date_trunc('day', $2, 'Asia/Seoul')
                AND date_trunc('day', hour, 'Asia/Seoul') < $3
        ),
        shown AS (
            SELECT value
            FROM stored
            WHERE value <> ''
            GROUP BY value
            ORDER BY sum(arrivals) DESC, sum(landings) DESC, sum(conversions) DESC, value
            LIMIT $4
        )
        SELECT day::text,
            day::timestamp AT TIME ZONE 'Asia/Seoul',
            NULLIF(shown_value, ''),
            sum(arrivals)::bigint,
            sum(landings)::bigint,
            sum(conversions)::bigint
        FROM stored
        LEFT JOIN shown USING (value)
        CROSS JOIN LATERAL (
            SELECT CASE WHEN value = '' OR shown.value IS NOT NULL THEN value ELSE 'other' END AS shown_value
        ) AS choice
        GROUP BY day, shown_value
        ORDER BY day, shown_value
        """

    let query: StatisticsQuery

    var parameters: [PostgresValue] {
        [.text(query.dimension), .timestamp(query.since), .timestamp(query.until), .int32(query.values)]
    }
    static func decode(_ row: PostgresRow) throws -> PeriodCounts { try row.decode { try PeriodCounts(&$0) } }
}

/// Counts up to `limit` events, and returns their number.
struct MergeShareEvents: PostgresStatement {
    static let sql: SQL = """
        SELECT merge_share_events($1)
        """

    let limit: Int

    var parameters: [PostgresValue] { [.int32(Int32(clamping: limit))] }
    static func decode(_ row: PostgresRow) throws -> Int64 { try row.decode(Int64.self) }
}
