import Endpoints
import FoundationEssentials
import HTTPServer
import HTTPTypes
import JSON
import Schemas
import Settings

/// `GET /v1/link/stats`: what shares led to over time.
struct StatisticsRoutes: RouteCollection {
    static let title = "Statistics of shares"
    static let operations = [reading]

    private static let day: TimeInterval = 86_400
    /// The groups that exist without settings.
    private static let ownGroups = ["campaign", "chat_type", "template_id"]

    let store: StatisticsStore
    /// The arguments by which statistics can be grouped.
    let args: [String]

    private static let by = Field.optional(
        "by",
        Kind<StatisticsPeriod>.choice,
        default: .day,
        shown: "day",
        "The length of a period."
    )
    private static let group = Field.optional(
        "group",
        .text(1...68),
        "Counts by `campaign`, `chat_type`, `template_id`, or `arg.NAME` for an argument in `sharing.statistics_args`."
    )
    private static let since = Field.optional(
        "since",
        .time,
        "The time from which to count, rounded down to a period: by default 30 days before `until`, or two days for hours."
    )
    private static let until = Field.optional(
        "until",
        .time,
        "The time until which to count, rounded up to a period: by default now."
    )
    private static let timeZone = Field.optional(
        "time_zone",
        Kind<String>.timeZone,
        default: "Asia/Seoul",
        shown: "Asia/Seoul",
        "The time zone of the days and hours, such as `Asia/Seoul` or `UTC`. Its difference from UTC must be whole hours."
    )
    private static let values = Field.optional(
        "values",
        Kind<Int64>.integer(1...50),
        default: 10,
        shown: 10,
        "The number of values of a group, those with the most arrivals. The others are counted together as `other`."
    )

    private static let reading = Operation(
        "readShareStatistics",
        .get,
        "/v1/link/stats",
        .operator(.read),
        "Returns arrivals, landings and conversions over time.",
        query: [by, group, since, until, timeZone, values],
        answers: [.json(.ok, ShareStatistics.shape, "The periods in which something was counted, in their order.")],
        handler: read
    )

    @Sendable private func read(_ call: Call) async throws -> Response {
        let by = try call[Self.by]
        let group = try call[Self.group]
        if let group, !groups.contains(group) {
            throw Problem.field(Self.group.name, "one of \(groups.joined(separator: ", "))", argsHint)
        }
        let until = try call[Self.until] ?? Date()
        let since = try call[Self.since] ?? until.addingTimeInterval(-by.defaultDays * Self.day)
        guard since <= until, until.timeIntervalSince(since) <= by.maximumDays * Self.day else {
            throw Problem.field(
                Self.since.name,
                "before until, by at most \(Int(by.maximumDays)) days",
                "One response has no more periods of a \(by.rawValue)."
            )
        }
        let query = StatisticsQuery(
            dimension: group ?? "all",
            by: by,
            since: since,
            until: until,
            timeZone: try call[Self.timeZone],
            values: Int32(try call[Self.values])
        )
        guard let items = try await store.read(query) else {
            throw Problem.field(Self.timeZone.name, Kind<String>.timeZone.allowed)
        }
        let statistics = ShareStatistics(query: query, group: group, items: items)
        return .json(ShareStatistics.shape.json(statistics))
    }

    private var groups: [String] { Self.ownGroups + args.map { "arg.\($0)" } }

    private var argsHint: String? { args.isEmpty ? "Arguments have to be named in sharing.statistics_args." : nil }
}

/// The length of a period of statistics.
enum StatisticsPeriod: String, CaseIterable, Sendable {
    case hour, day

    fileprivate var defaultDays: Double { self == .hour ? 2 : 30 }
    /// The longest time for which one response has all periods.
    fileprivate var maximumDays: Double { self == .hour ? 31 : 400 }
}

/// The counts of a request.
private struct ShareStatistics: Sendable {
    let query: StatisticsQuery
    let group: String?
    let items: [PeriodCounts]

    static let shape = Shape<ShareStatistics>(
        "ShareStatistics",
        [
            .member(
                "by",
                .text(oneOf: StatisticsPeriod.allCases.map(\.rawValue)),
                "The length of a period.",
                \.query.by.rawValue
            ),
            .nullable("group", .text, "What the counts are grouped by.", \.group),
            .member("time_zone", .text, "The time zone of the periods.", \.query.timeZone),
            .array("items", PeriodCounts.shape.kind, "The counts by period and value.", \.items),
        ]
    )
}
