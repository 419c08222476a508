import Runtime
import Sharing

/// A kind of call from Kakao: the label `kind`.
enum NoticeKind: String, CaseIterable, Sendable {
    /// A shared message has reached a chat room.
    case link
    case unlink
    /// A person has added or blocked a KakaoTalk channel.
    case channel
    case accountEvent = "account_event"
    /// A push token has failed.
    case feedback
}

/// What became of a call from Kakao: the label `outcome`.
enum NoticeOutcome: String, CaseIterable, Sendable {
    /// It is in the database or in the journal.
    case stored
    /// It changed nothing: it was stored before, or names an unknown token.
    case repeated
    /// A part of it was not understood. It is stored as far as it was, up to a limit an hour.
    case malformed
    /// It is an account event that Kakao did not sign for this app, or one too many with an unknown key from its address, or from an
    /// address that is not Kakao's; or it lacks a required signature.
    case refused
    /// It is an account event that waits in the journal until Kakao's keys are fetched.
    case unverified
    /// It could neither be stored nor written to a journal. Kakao does not call again.
    case failed
}

/// What became of a call with Kakao's credential from another address than Kakao's: the label `outcome`.
enum ElsewhereOutcome: String, CaseIterable, Sendable {
    /// It was handled like any other.
    case recorded
    /// It was answered 403.
    case refused
}

/// The numbers of calls from Kakao.
struct CallbackCounts: Sendable {
    /// A call with Kakao's credential from another address than Kakao's.
    struct Elsewhere: Hashable, Sendable {
        let kind: NoticeKind
        let outcome: ElsewhereOutcome
    }

    struct Notice: Hashable, Sendable {
        let kind: NoticeKind
        let outcome: NoticeOutcome
    }

    let notices: LoopCounts<Notice>
    /// Link callbacks, by the outcome of their signatures.
    let signatures: LoopCounts<String>
    let elsewhere: LoopCounts<Elsewhere>

    init(_ loops: [LoopServices]) {
        notices = LoopCounts(loops)
        signatures = LoopCounts(loops)
        elsewhere = LoopCounts(loops)
    }
}

/// The report on calls from Kakao for operators.
struct CallbackMonitoring: Sendable {
    private static let received = Metric(
        "kakao_push_link_callbacks_total",
        .counter,
        "Link callbacks received, by the outcome of the signature check: valid, expired, invalid, none."
    )
    private static let notices = Metric(
        "kakao_push_notices_total",
        .counter,
        "Calls from Kakao, by kind and outcome. A failed call is lost, since Kakao does not call again."
    )
    private static let elsewhere = Metric(
        "kakao_push_calls_from_elsewhere_total",
        .counter,
        "Calls with Kakao's credential from other addresses than those that Kakao publishes, by kind and outcome."
    )
    /// The value of the label of a callback without a signature.
    static let unsigned = "none"

    let counts: CallbackCounts

    func report() async -> Monitoring.Report {
        let signatures = await counts.signatures.sums()
        let notices = await counts.notices.sums()
        let elsewhere = await counts.elsewhere.sums()
        let labels = (ShareSigner.Verdict.names + [Self.unsigned]).sorted()
        return Monitoring.Report(metrics: [
            Self.received.reading("signature", labels.map { ($0, Double(signatures[$0] ?? 0)) }),
            Self.notices.reading(
                NoticeKind.allCases.flatMap { kind in
                    NoticeOutcome.allCases.map { outcome in
                        let count = notices[CallbackCounts.Notice(kind: kind, outcome: outcome)] ?? 0
                        return ([("kind", kind.rawValue), ("outcome", outcome.rawValue)], Double(count))
                    }
                }
            ),
            Self.elsewhere.reading(
                NoticeKind.allCases.flatMap { kind in
                    ElsewhereOutcome.allCases.map { outcome in
                        let count = elsewhere[CallbackCounts.Elsewhere(kind: kind, outcome: outcome)] ?? 0
                        return ([("kind", kind.rawValue), ("outcome", outcome.rawValue)], Double(count))
                    }
                }
            ),
        ])
    }
}
