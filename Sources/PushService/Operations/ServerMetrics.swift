internal import CoreMetrics
internal import HTTPClient
internal import Journal
internal import KakaoAPI
internal import PrometheusMetrics

/// What one server counts, and everything that it tells Prometheus: each name, help text and label stands here (`docs/metrics.md`).
///
/// Made once for each server and handed to what counts.
final class ServerMetrics: Sendable {
    /// The metrics. Those of the process have the names that all programs give them.
    enum Name: String, CaseIterable {
        /// Counted by `api` and `outcome`.
        case kakaoRequests = "kakao_push_kakao_requests_total"
        /// By `api`.
        case kakaoRequestDuration = "kakao_push_kakao_request_duration_seconds"
        /// 1 for the `state` that the sender is in, 0 for the others.
        case senderState = "kakao_push_sender_state"
        case senderFailing = "kakao_push_sender_failing_seconds"
        /// By `state`: those that have not finished.
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
            case .kakaoRequests: "Calls to Kakao that have ended, by what came of them."
            case .kakaoRequestDuration: "How long calls to Kakao took, waiting for a connection included."
            case .senderState: "Whether pushes go to Kakao, wait for a quota, or are refused with the key or the app."
            case .senderFailing:
                "For how long the sender has made no progress because each of its passes fails; 0 if it works."
            case .pushes: "Pushes that have not finished. A halted one waits for an operator."
            case .batches: "Batches that are yet to be sent or under way, of all servers; \(QueueDepth.limit) for more."
            case .oldestWaitingBatchAge: "For how long the waiting batch that was due first has been due."
            case .devicesUnsettled: "Devices of which Kakao has yet to hear; \(QueueDepth.limit) for more."
            case .databaseUp: "Whether the database answered when it was last asked for this page."
            case .databaseStatements: "Statements asked of the database, but for those of migrations."
            case .journalOpen: "Whether calls from Kakao can be written to the journal."
            case .journalRecords: "Calls from Kakao that wait in the journal to be stored."
            case .journalOldestAge: "Age of the oldest call that waits in the journal; 0 when none does."
            case .journalRejected: "Calls in the journal's folder of records that the database has rejected."
            case .journalFailures: "Journal writes that failed, and journal files that are damaged."
            case .residentMemory: "Resident memory of the process."
            case .processorTime: "Processor time of the process, in user and in system mode."
            case .openDescriptors: "Open file descriptors of the process."
            case .startTime: "When the process began, in seconds since 1970."
            }
        }
    }

    /// What came of a call to Kakao: the label `outcome`.
    enum KakaoOutcome: Int, CaseIterable {
        /// Kakao answered with success.
        case ok
        /// Kakao had a passing fault.
        case retry
        /// A quota is used up.
        case wait
        /// Kakao refuses the key or the app, or the settings make no request.
        case halt
        /// Kakao refuses this request.
        case refused
        /// Kakao did not answer in time.
        case timeout
        /// There was no connection, or it broke.
        case unreachable
        /// The answer is not what Kakao's documents say, or no HTTP.
        case badAnswer
        /// This server gave it up: it ends, or has too much to ask.
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
                case .canceled, .expired, .overloaded, .shutDown, .internalFailure: self = .givenUp
                case .invalidRequest, .invalidSettings: self = .halt
                }
            case .refused:
                switch error.disposition {
                case .retry: self = .retry
                case .wait: self = .wait
                case .halt: self = .halt
                case .invalid, .fail: self = .refused
                }
            }
        }
    }

    /// What is not counted, but looked at when somebody asks.
    struct Snapshot: Sendable {
        var sender: KakaoAvailability.SenderState
        /// See ``SenderProgress/failingFor``.
        var senderFailing: Duration
        /// `nil` while the database does not answer.
        var queue: QueueDepth.Counts?
        var databaseStatements: Int
        /// `nil` without a journal.
        var journal: Journal.Status?
        /// `nil` where there is no `/proc`.
        var process: ProcessStatistics?
    }

    /// What is counted of one of Kakao's calls.
    private struct KakaoCounters {
        /// By the number of the outcome.
        let outcomes: [Counter]
        let duration: Timer
    }

    private let factory = PrometheusFactory(
        help: Dictionary(uniqueKeysWithValues: Name.allCases.map { ($0.rawValue, $0.help) })
    )
    /// By the number of the call.
    private let kakao: [KakaoCounters]

    init() {
        kakao = KakaoCall.API.allCases.map { [factory] api in
            KakaoCounters(
                outcomes: KakaoOutcome.allCases.map { outcome in
                    Counter(
                        label: Name.kakaoRequests.rawValue,
                        dimensions: [("api", api.label), ("outcome", outcome.label)],
                        factory: factory
                    )
                },
                duration: Timer(
                    label: Name.kakaoRequestDuration.rawValue,
                    dimensions: [("api", api.label)],
                    factory: factory
                )
            )
        }
    }

    /// Counts a call to Kakao. Callable from anywhere.
    func count(_ call: KakaoCall) {
        let counters = kakao[call.api.rawValue]
        counters.outcomes[KakaoOutcome(call.error).rawValue].increment()
        counters.duration.recordSeconds(call.duration.inSeconds)
    }

    /// Everything, as Prometheus reads it.
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

    /// A family of one sample without labels.
    fileprivate mutating func single(_ name: ServerMetrics.Name, _ kind: Kind, _ value: Double) {
        family(name, kind)
        sample(name.rawValue, value)
    }
}

extension KakaoCall.API {
    /// The label `api`.
    fileprivate var label: String {
        switch self {
        case .pushRegister: "push_register"
        case .pushTokens: "push_tokens"
        case .pushDeregister: "push_deregister"
        case .pushSend: "push_send"
        case .accessTokenInfo: "access_token_info"
        }
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
