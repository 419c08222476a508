import Endpoints
import FoundationEssentials
import Postgres
import Schemas

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

extension PeriodCounts {
    static let shape = Shape<PeriodCounts>(
        "ShareCounts",
        [
            .member(
                "period",
                .text,
                "The day or the hour in the time zone: `2026-11-22`, `2026-11-22T15:00`.",
                \.period
            ),
            .member("start", .time, "When the period begins.", \.start),
            .nullable(
                "value",
                .text,
                "The value of the group; `null` without a group, and for shares without one.",
                \.value
            ),
            .member("arrivals", .count, "The messages that arrived in chat rooms.", \.arrivals),
            .member("landings", .count, "The visits of landing addresses.", \.landings),
            .member("conversions", .count, "The reported conversions.", \.conversions),
        ]
    )
}

extension PeriodCounts {
    /// Decodes a row of ``ReadShareStatistics`` and ``ReadShareStatisticsOfDays``.
    init(_ column: inout ColumnCursor) throws {
        try self.init(
            period: column.next(),
            start: column.next(),
            value: column.next(),
            arrivals: column.next(),
            landings: column.next(),
            conversions: column.next()
        )
    }
}
