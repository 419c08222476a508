import EventLoop
import Journal
import Postgres
import Runtime

/// The metrics of the process and of what it depends on. Metrics of the process have their conventional names.
enum OperationsMetrics {
    private static let databaseUp = Metric(
        "kakao_push_database_up",
        .gauge,
        "1 if the last query of the database for these metrics succeeded and it commits, else 0."
    )
    private static let databaseStatements = Metric(
        "kakao_push_database_statements_total",
        .counter,
        "Database statements; rows that are written together count as one. Those of transactions are not counted."
    )
    private static let statementDuration = Metric(
        "kakao_push_database_statement_duration_seconds",
        .histogram,
        "Time from sending a database statement to its result in seconds, including those of transactions."
    )
    private static let databaseWaiting = Metric(
        "kakao_push_database_waiting",
        .gauge,
        "Statements, transactions and rows to write together that wait to be sent to the database."
    )
    private static let databaseReconnects = Metric(
        "kakao_push_database_reconnects_total",
        .counter,
        "Lost database connections that were opened again."
    )
    private static let loopDelay = Metric(
        "kakao_push_loop_delay_seconds",
        .gauge,
        "Longest time in seconds, within the last minute, for which an event loop noticed no event."
    )
    private static let droppedLogLines = Metric(
        "kakao_push_log_lines_dropped_total",
        .counter,
        "Log lines that were dropped because the output did not accept them in time."
    )
    private static let buildInfo = Metric(
        "push_server_build_info",
        .gauge,
        "1, with the version of the program and the revision of its source."
    )
    private static let journalOpen = Metric(
        "kakao_push_journal_open",
        .gauge,
        "1 if calls from Kakao can be written to the journal, else 0."
    )
    private static let unverifiedJournalOpen = Metric(
        "kakao_push_journal_unverified_open",
        .gauge,
        "1 if account events that cannot be verified yet can be written to their journal, else 0."
    )
    private static let journalRecords = Metric(
        "kakao_push_journal_records",
        .gauge,
        "Calls from Kakao in the journal that are waiting to be stored."
    )
    private static let journalOldestAge = Metric(
        "kakao_push_journal_oldest_record_age_seconds",
        .gauge,
        "Age in seconds of the oldest call waiting in the journal; 0 if none is waiting."
    )
    private static let journalRejected = Metric(
        "kakao_push_journal_rejected_records",
        .gauge,
        "Files in the journal's folder of rejected records: calls that the database rejected, and damaged files."
    )
    private static let journalFailures = Metric(
        "kakao_push_journal_failures_total",
        .counter,
        "Failed journal writes, gaps of damaged journal files, and files that were deleted or cannot be created or opened."
    )
    private static let residentMemory = Metric(
        "process_resident_memory_bytes",
        .gauge,
        "Resident memory of the process in bytes."
    )
    private static let processorTime = Metric(
        "process_cpu_seconds_total",
        .counter,
        "User and system processor time of the process in seconds."
    )
    private static let openDescriptors = Metric("process_open_fds", .gauge, "Open file descriptors of the process.")
    private static let startTime = Metric(
        "process_start_time_seconds",
        .gauge,
        "Start time of the process in seconds since 1970."
    )

    static func build() -> Metric.Reading {
        buildInfo.reading([([("version", ServerVersion.current), ("revision", ServerVersion.revision)], 1)])
    }

    static func log(droppedLines: Int) -> Metric.Reading { droppedLogLines.reading(Double(droppedLines)) }

    static func database(isUp: Bool, _ pools: [PostgresPool]) async -> [Metric.Reading] {
        var durations = DurationCounts()
        var (waiting, reconnections) = (0, 0)
        for pool in pools {
            let statistics = await pool.statistics()
            durations += statistics.durations
            waiting += statistics.waiting
            reconnections += statistics.reconnections
        }
        return [
            databaseUp.reading(isUp ? 1 : 0),
            databaseStatements.reading(Double(pools.reduce(0) { $0 + $1.statementCount })),
            statementDuration.reading([([], durations)]),
            databaseWaiting.reading(Double(waiting)),
            databaseReconnects.reading(Double(reconnections)),
        ]
    }

    static func loops(_ loops: [EventLoop]) async -> Metric.Reading {
        var delays: [(String, Double)] = []
        for loop in loops {
            let milliseconds = await loop.result { loop.longestDelay }
            delays.append((loop.label, Double(milliseconds) / 1000))
        }
        return loopDelay.reading("loop", delays)
    }

    /// - Parameter unverified: The state of the journal of account events that cannot be verified yet.
    static func journal(_ status: Journal.Status, unverified: Journal.Status?) -> [Metric.Reading] {
        [
            journalOpen.reading(status.isOpen ? 1 : 0),
            unverifiedJournalOpen.reading(unverified?.isOpen == true ? 1 : 0),
            journalRecords.reading(Double(status.records)),
            journalOldestAge.reading(status.oldestSeconds),
            journalRejected.reading(Double(status.rejected)),
            journalFailures.reading(Double(status.failures)),
        ]
    }

    static func process(_ statistics: ProcessStatistics) -> [Metric.Reading] {
        [
            residentMemory.reading(Double(statistics.residentBytes)),
            processorTime.reading(statistics.processorSeconds),
            openDescriptors.reading(Double(statistics.openDescriptors)),
            startTime.reading(statistics.startTime),
        ]
    }
}
