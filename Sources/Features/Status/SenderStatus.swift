import Endpoints
import FoundationEssentials
import Runtime
import Schemas

/// Whether pushes and KakaoTalk messages are sent, and if not, why.
struct SenderStatus: Sendable {
    let state: KakaoAvailability.SenderState
    let reason: String?
    /// Why calls are held back; `nil` if they are not.
    private let cause: CircuitBreaker.Cause?
    /// The stop by an operator, if there is one.
    let stop: SenderControl.Stop?

    init(_ availability: KakaoAvailability, _ position: SenderControl.Position) {
        stop = position.stop
        let own = availability.senderState
        state =
            switch position {
            case .started: own
            case .stopped: .stopped
            // What Kakao answers holds in either case.
            case .unknown: own == .running ? .unknown : own
            }
        cause = availability.openSender?.cause
        reason =
            switch state {
            case .running: nil
            case .waiting: cause?.reason ?? "A quota at Kakao is used up."
            case .halted: cause?.reason
            case .stopped: stop?.reason
            case .unknown: "PostgreSQL does not respond, so it is unknown whether an operator has stopped the sender."
            }
    }

    /// The advice for an operator; `nil` if nothing is wrong.
    private var remedy: String? {
        switch state {
        case .running: nil
        case .waiting, .halted:
            switch cause {
            case nil: "Wait, or ask Kakao for a larger quota. The sender resumes by itself."
            case .unrecognized:
                "Find out what responds in Kakao's place: a proxy, a firewall, or the host in kakao.api_url. The sender resumes by itself."
            case .refused:
                "Check kakao.admin_key and the app's settings at Kakao (push-server doctor), then resume the halted pushes."
            }
        case .stopped: "When the reason no longer holds: push-server sender start, or POST /v1/sender/start."
        case .unknown:
            "Find out with push-server doctor why PostgreSQL does not respond. Nothing is sent until it does."
        }
    }

    static let shape = Shape<SenderStatus>(
        "SenderStatus",
        [
            .member("state", .choice, "Its state.", \.state),
            .nullable("reason", .text, "Why it does not send.", \.reason),
            .nullable("remedy", .text, "What to do.", \.remedy),
            .nullable("stopped_at", .time, "When an operator stopped it.", \.stop?.at),
            .nullable("stopped_by", .text, "The name of the operator's key.", \.stop?.by),
        ]
    )
}
