internal import CoreMetrics
internal import HTTPClient
internal import Journal
internal import KakaoAPI
internal import PrometheusMetrics
internal import Schemas

/// The metrics of one server: all counters, and each name, help text and label that Prometheus reads
/// (`docs/metrics.md`).
///
/// One instance for each server is shared by all components that count.
final class ServerMetrics: Sendable {
    /// The names of the metrics. Metrics of the process have their conventional names.
    enum Name: String, CaseIterable {
        /// Counted by `api` and `outcome`.
        case kakaoRequests = "kakao_push_kakao_requests_total"
        /// By `api`.
        case kakaoRequestDuration = "kakao_push_kakao_request_duration_seconds"
        /// 1 for the `state` that the sender is in, 0 for the others.
        case senderState = "kakao_push_sender_state"
        case senderFailing = "kakao_push_sender_failing_seconds"
        /// Unfinished pushes, by `state`.
        case pushes = "kakao_push_pushes"
        /// By `state`.
        case batches = "kakao_push_batches"
        case oldestWaitingBatchAge = "kakao_push_oldest_waiting_batch_age_seconds"
        case devicesUnsettled = "kakao_push_devices_unsettled"
        case databaseUp = "kakao_push_database_up"
        case databaseStatements = "kakao_push_database_statements_total"
        case journalOpen = "kakao_push_journal_open"
        case journalRecords = "kakao_push_journal_records"
        case journalOldestAge = "kakao_push_journal_oldest_record_age_seconds"
        case journalRejected = "kakao_push_journal_rejected_records"
        case journalFailures = "kakao_push_journal_failures_total"
        case residentMemory = "process_resident_memory_bytes"
        case processorTime = "process_cpu_seconds_total"
        case openDescriptors = "process_open_fds"
        case startTime = "process_start_time_seconds"

        var help: String {
            switch self {
            case .kakaoRequests: "Finished calls to Kakao, by API and outcome."
            case .kakaoRequestDuration: "Duration of calls to Kakao in seconds, including the wait for a connection."
            case .senderState: "Sender state: running, waiting for a quota, or halted because Kakao rejects calls."
            case .senderFailing:
                "Seconds for which each pass of the sender has failed; 0 if it works."
            case .pushes: "Unfinished pushes, by state. A halted push waits for an operator."
            case .batches: "Batches waiting or in flight, of all servers, counted up to \(QueueDepth.limit)."
            case .oldestWaitingBatchAge: "Seconds by which the most overdue waiting batch is late; 0 if none is due."
            case .devicesUnsettled: "Devices with changes pending at Kakao, counted up to \(QueueDepth.limit)."
            case .databaseUp: "1 if the last query of the database for these metrics succeeded, else 0."
            case .databaseStatements: "Database statements, except those of migrations."
            case .journalOpen: "1 if calls from Kakao can be written to the journal, else 0."
            case .journalRecords: "Calls from Kakao in the journal that are waiting to be stored."
            case .journalOldestAge: "Age in seconds of the oldest call waiting in the journal; 0 if none is waiting."
            case .journalRejected: "Calls that the database rejected, in the journal's folder of rejected records."
            case .journalFailures: "Failed journal writes and damaged journal files."
            case .residentMemory: "Resident memory of the process in bytes."
            case .processorTime: "User and system processor time of the process in seconds."
            case .openDescriptors: "Open file descriptors of the process."
            case .startTime: "Start time of the process in seconds since 1970."
            }
        }
    }

    /// The outcome of a call to Kakao: the label `outcome`.
    enum KakaoOutcome: Int, CaseIterable {
        /// Kakao responded with success.
        case ok
        /// Kakao reported a transient error.
        case retry
        /// A quota is used up.
        case wait
        /// Kakao rejected the key or the app, or the settings yield no valid request.
        case halt
        /// Kakao rejected this request.
        case refused
        /// Kakao did not respond in time.
        case timeout
        /// The connection failed or was lost.
        case unreachable
        /// The response contradicts Kakao's documents, or is not HTTP.
        case badAnswer
        /// This server cancelled the call, because it was shutting down or overloaded.
        case givenUp

        var label: String {
            switch self {
            case .ok: "ok"
            case .retry: "retry"
            case .wait: "wait"
            case .halt: "halt"
            case .refused: "refused"
            case .timeout: "timeout"
            case .unreachable: "unreachable"
            case .badAnswer: "bad_answer"
            case .givenUp: "given_up"
            }
        }

        init(_ error: KakaoError?) {
            guard let error else {
                self = .ok
                return
            }
            switch error.kind {
            case .badAnswer:
                self = .badAnswer
            case .unreachable(let error):
                switch error.code {
                case .timedOut: self = .timeout
                case .cannotResolve, .cannotConnect, .tls, .connectionLost: self = .unreachable
                case .responseTooLarge, .badResponse: self = .badAnswer
                case .canceled, .expired, .overloaded, .shutDown, .uploadFailed, .internalFailure: self = .givenUp
                case .invalidRequest, .invalidSettings: self = .halt
                }
            case .refused:
                switch error.disposition {
                case .retry: self = .retry
                case .wait: self = .wait
                case .halt: self = .halt
                case .invalid, .fail, .logIn, .consent: self = .refused
                }
            }
        }
    }

    /// The values that are read for each request for the metrics, rather than counted.
    struct Snapshot: Sendable {
        var sender: KakaoAvailability.SenderState
        /// See ``SenderProgress/failingFor``.
        var senderFailing: Duration
        /// `nil` while the database is unavailable.
        var queue: QueueDepth.Counts?
        var databaseStatements: Int
        /// `nil` without a journal.
        var journal: Journal.Status?
        /// `nil` where there is no `/proc`.
        var process: ProcessStatistics?
    }

    /// The counters of one of Kakao's APIs.
    private struct KakaoCounters {
        /// The counters by the raw value of ``KakaoOutcome``.
        let outcomes: [Counter]
        let duration: Timer
    }

    private let factory = PrometheusFactory(
        help: Dictionary(uniqueKeysWithValues: Name.allCases.map { ($0.rawValue, $0.help) })
    )
    /// The counters by the names of the calls.
    private let kakao: [String: KakaoCounters]

    init() {
        let calls = KakaoCalls.all.map { [factory] call in
            let counters = KakaoCounters(
                outcomes: KakaoOutcome.allCases.map { outcome in
                    Counter(
                        label: Name.kakaoRequests.rawValue,
                        dimensions: [("api", call.name), ("outcome", outcome.label)],
                        factory: factory
                    )
                },
                duration: Timer(
                    label: Name.kakaoRequestDuration.rawValue,
                    dimensions: [("api", call.name)],
                    factory: factory
                )
            )
            return (call.name, counters)
        }
        kakao = Dictionary(uniqueKeysWithValues: calls)
    }

    /// Counts a call to Kakao. Callable from any thread.
    func count(_ call: KakaoCallReport) {
        guard let counters = kakao[call.name] else { return }
        counters.outcomes[KakaoOutcome(call.error).rawValue].increment()
        counters.duration.recordSeconds(call.duration.inSeconds)
    }

    /// Returns all metrics in Prometheus's text format.
    func text(_ snapshot: Snapshot) -> [UInt8] {
        var text = ExpositionText()
        factory.write(to: &text)

        text.family(.senderState, .gauge)
        for state in KakaoAvailability.SenderState.allCases {
            text.sample(.senderState, [("state", state.label)], state == snapshot.sender ? 1 : 0)
        }
        text.single(.senderFailing, .gauge, snapshot.senderFailing.inSeconds)
        text.single(.databaseUp, .gauge, snapshot.queue == nil ? 0 : 1)
        text.single(.databaseStatements, .counter, Double(snapshot.databaseStatements))
        if let queue = snapshot.queue {
            text.family(.pushes, .gauge)
            for state in PushState.allCases where !state.isFinal {
                text.sample(.pushes, [("state", state.rawValue)], Double(queue.pushes[state] ?? 0))
            }
            text.family(.batches, .gauge)
            text.sample(.batches, [("state", "waiting")], Double(queue.waitingBatches))
            text.sample(.batches, [("state", "sending")], Double(queue.sendingBatches))
            text.single(.oldestWaitingBatchAge, .gauge, queue.oldestWaitingSeconds)
            text.single(.devicesUnsettled, .gauge, Double(queue.pendingDevices))
        }
        if let journal = snapshot.journal {
            text.single(.journalOpen, .gauge, journal.isOpen ? 1 : 0)
            text.single(.journalRecords, .gauge, Double(journal.records))
            text.single(.journalOldestAge, .gauge, journal.oldestSeconds)
            text.single(.journalRejected, .gauge, Double(journal.rejected))
            text.single(.journalFailures, .counter, Double(journal.failures))
        }
        if let process = snapshot.process {
            text.single(.residentMemory, .gauge, Double(process.residentBytes))
            text.single(.processorTime, .counter, process.processorSeconds)
            text.single(.openDescriptors, .gauge, Double(process.openDescriptors))
            text.single(.startTime, .gauge, process.startTime)
        }
        return text.bytes
    }
}

extension ExpositionText {
    fileprivate mutating func family(_ name: ServerMetrics.Name, _ kind: Kind) {
        family(name.rawValue, kind, help: name.help)
    }

    fileprivate mutating func sample(_ name: ServerMetrics.Name, _ labels: [(String, String)], _ value: Double) {
        sample(name.rawValue, labels, value)
    }

    /// Writes a family of one sample without labels.
    fileprivate mutating func single(_ name: ServerMetrics.Name, _ kind: Kind, _ value: Double) {
        family(name, kind)
        sample(name.rawValue, value)
    }
}

extension KakaoAvailability.SenderState {
    /// The label `state`.
    var label: String {
        switch self {
        case .running: "running"
        case .waiting: "waiting"
        case .halted: "halted"
        }
    }
}
