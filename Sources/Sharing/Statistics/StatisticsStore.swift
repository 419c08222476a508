internal import FoundationEssentials
internal import Postgres
internal import ServiceKit

/// The statistics of shares in PostgreSQL, which other statements count (`count_share_events`).
struct StatisticsStore: Sendable {
    let pool: PostgresPool

    /// Returns the counts of a query; `nil` for a time zone that is unknown or not whole hours from UTC.
    func read(_ query: StatisticsQuery) async throws -> [PeriodCounts]? {
        do {
            let check = CheckTimeZone(timeZone: query.timeZone, since: query.since, until: query.until)
            guard try await pool.read(check).first == true else { return nil }
        } catch let error as PostgresError where error.sqlState == "22023" {
            return nil
        }
        return query.isOfMergedDays
            ? try await pool.read(ReadShareStatisticsOfDays(query: query))
            : try await pool.read(ReadShareStatistics(query: query))
    }

    /// Adds the slots of up to `limit` counters of past hours together. Returns the number of counters.
    func mergeSlots(limit: Int) async throws -> Int {
        try await pool.write(MergeStatisticsSlots(limit: limit)).first.map(Int.init) ?? 0
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

    /// Whether the periods are those of `share_statistics_days`.
    fileprivate var isOfMergedDays: Bool { by == .day && timeZone == "Asia/Seoul" }
}

/// The counts of a period, of one value if the query has a group.
struct PeriodCounts: Sendable {
    /// The period by the clock of the time zone.
    let period: String
    let start: Date
    let value: String?
    let arrivals: Int64
    let landings: Int64
    let conversions: Int64
}

// MARK: Statements

/// Returns whether the difference of a time zone from UTC is whole hours at two times. PostgreSQL rejects an unknown zone.
struct CheckTimeZone: PostgresStatement {
    static let sql: SQL = """
        SELECT bool_and(extract(minute FROM at AT TIME ZONE $1) = extract(minute FROM at AT TIME ZONE 'UTC'))
        FROM unnest(ARRAY[$2, $3]::timestamptz[]) AS at
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
                SELECT local AT TIME ZONE $5 AS start, (local + ('1 ' || $2)::interval) AT TIME ZONE $5 AS stop
                FROM generate_series(
                    date_trunc($2, $3::timestamptz AT TIME ZONE $5),
                    date_trunc($2, ($4::timestamptz - interval '1 microsecond') AT TIME ZONE $5),
                    ('1 ' || $2)::interval
                ) AS local
            ) AS period
            CROSS JOIN LATERAL (
                SELECT value, sum(arrivals) AS arrivals, sum(landings) AS landings, sum(conversions) AS conversions
                FROM share_statistics
                WHERE dimension = $1
                    AND hour >= period.start
                    AND hour < period.stop
                GROUP BY value
            ) AS stored
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
    static func decode(_ row: PostgresRow) throws -> PeriodCounts { try PeriodCounts(row) }
}

/// Reads the counts of days in Seoul: the merged ones, and those that are not merged yet.
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
            FROM share_statistics
            WHERE slot > 0
                AND dimension = $1
                AND hour >= date_trunc('day', $2, 'Asia/Seoul')
                AND hour < date_trunc('day', $3 - interval '1 microsecond', 'Asia/Seoul') + interval '1 day'
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
            sum(arrivals),
            sum(landings),
            sum(conversions)
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
    static func decode(_ row: PostgresRow) throws -> PeriodCounts { try PeriodCounts(row) }
}

extension PeriodCounts {
    fileprivate init(_ row: PostgresRow) throws {
        let (period, start, value, arrivals, landings, conversions) = try row.decode(
            String.self,
            Date.self,
            String?.self,
            Int64.self,
            Int64.self,
            Int64.self
        )
        self.init(
            period: period,
            start: start,
            value: value,
            arrivals: arrivals,
            landings: landings,
            conversions: conversions
        )
    }
}

/// Adds up to `limit` counters of past hours to slot 0 and to their days in Seoul, and returns their number.
///
/// An event may still be counted for such an hour, if it waited in the journal: it gets a slot again. Counters that another
/// statement is changing are left for the next time.
struct MergeStatisticsSlots: PostgresStatement {
    static let sql: SQL = """
        WITH spread AS (
            SELECT dimension, hour, slot, value
            FROM share_statistics
            WHERE slot > 0
                AND hour < now() - interval '2 hours'
            ORDER BY hour
            LIMIT $1
            FOR UPDATE SKIP LOCKED
        ),
        removed AS (
            DELETE FROM share_statistics AS stored
            USING spread
            WHERE stored.dimension = spread.dimension
                AND stored.hour = spread.hour
                AND stored.slot = spread.slot
                AND stored.value = spread.value
            RETURNING stored.*
        ),
        by_hour AS (
            INSERT INTO share_statistics AS stored (dimension, hour, slot, value, arrivals, landings, conversions)
            SELECT dimension, hour, 0, value, sum(arrivals), sum(landings), sum(conversions)
            FROM removed
            GROUP BY dimension, hour, value
            ORDER BY dimension, hour, value
            ON CONFLICT (dimension, hour, slot, value) DO UPDATE
            SET arrivals = stored.arrivals + excluded.arrivals,
                landings = stored.landings + excluded.landings,
                conversions = stored.conversions + excluded.conversions
        ),
        by_day AS (
            INSERT INTO share_statistics_days AS stored (dimension, day, value, arrivals, landings, conversions)
            SELECT dimension, (hour AT TIME ZONE 'Asia/Seoul')::date AS day, value, sum(arrivals), sum(landings),
                sum(conversions)
            FROM removed
            GROUP BY dimension, day, value
            ORDER BY dimension, day, value
            ON CONFLICT (dimension, day, value) DO UPDATE
            SET arrivals = stored.arrivals + excluded.arrivals,
                landings = stored.landings + excluded.landings,
                conversions = stored.conversions + excluded.conversions
        )
        SELECT count(*)
        FROM removed
        """

    let limit: Int

    var parameters: [PostgresValue] { [.int64(Int64(limit))] }
    static func decode(_ row: PostgresRow) throws -> Int64 { try row.decode(Int64.self) }
}
