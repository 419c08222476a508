import Endpoints
import EventLoop
import HTTPServer
import LogOutput
import Logging
import Net
import Runtime
import Settings

/// The check that calls with Kakao's credential come from the addresses that Kakao publishes.
///
/// It admits no call: the credential decides. It finds out that somebody else has the credential, and may refuse calls that are
/// not Kakao's.
///
/// There is one instance for each event loop.
struct SourceAddressCheck: Sendable {
    /// The minimum time between two log lines of a loop.
    private static let logInterval = Duration.seconds(60)

    /// The addresses of the loop; `nil` while they are not known.
    private let list: LoopValue<FetchedAddresses?>.Copy
    private let policy: @Sendable () -> SourceAddressPolicy
    private let maximumAge: Duration
    private let counts: LoopCounts<CallbackCounts.Elsewhere>.Own
    private let line: RepeatedLine

    /// - Parameters:
    ///   - list: The addresses of `loop`.
    ///   - policy: Returns the setting `kakao.source_addresses` at present.
    ///   - maximumAge: The age from which on the list refuses no call.
    ///   - counts: The counts of `loop`.
    init(
        _ list: LoopValue<FetchedAddresses?>.Copy,
        policy: @escaping @Sendable () -> SourceAddressPolicy,
        maximumAge: Duration,
        counts: LoopCounts<CallbackCounts.Elsewhere>.Own,
        logger: Logger
    ) {
        self.list = list
        self.policy = policy
        self.maximumAge = maximumAge
        self.counts = counts
        line = RepeatedLine(logger, every: Self.logInterval)
    }

    /// Adds this check to those of operations whose requests have Kakao's credential in their heads; others keep theirs.
    ///
    /// All calls from an address that is refused get the same response, so that it says nothing about their credential. Those with a
    /// wrong one are rejected as such in the log and the metrics.
    ///
    /// - Parameter kind: The kind of the operations' calls.
    func guarding(_ kind: NoticeKind) -> Routes.Guarding {
        { declaration, check in
            guard let check, declaration.access == .kakao || declaration.access == .kakaoAddress else { return check }
            return { request in
                let verdict = verdict(on: request)
                let pending: PendingCheck?
                do {
                    pending = try check(request)
                } catch let problem as Problem where verdict == .refused {
                    var refusal = Self.refusal(of: request)
                    refusal.reason = problem.reason
                    throw refusal
                }
                try carryOut(verdict, on: request, kind)
                return pending
            }
        }
    }

    /// Checks the address of a call whose credential was accepted: records a call from elsewhere.
    ///
    /// - Throws: ``Problem`` 403 if the call is refused.
    func check(_ request: Request, _ kind: NoticeKind) throws {
        try carryOut(verdict(on: request), on: request, kind)
    }

    /// Checks the address of a call whose credential is not known to be right. It is not recorded, because anyone can send it.
    ///
    /// - Throws: ``Problem`` 403 if the call is refused.
    func checkUnverified(_ request: Request) throws {
        guard verdict(on: request) != .refused else { throw Self.refusal(of: request) }
    }

    private func verdict(on request: Request) -> SourceVerdict {
        guard let list = list.value else { return .accepted }
        return list.verdict(
            on: request.clientAddress,
            isReported: request.isClientReported,
            policy,
            maximumAge: maximumAge,
            at: .now
        )
    }

    private func carryOut(_ verdict: SourceVerdict, on request: Request, _ kind: NoticeKind) throws {
        switch verdict {
        case .accepted: break
        case .recorded(let leniency): record(request, kind, .recorded, leniency)
        case .refused:
            record(request, kind, .refused, nil)
            throw Self.refusal(of: request)
        }
    }

    private func record(
        _ request: Request,
        _ kind: NoticeKind,
        _ outcome: ElsewhereOutcome,
        _ leniency: SourceVerdict.Leniency?
    ) {
        counts.add(to: CallbackCounts.Elsewhere(kind: kind, outcome: outcome))
        var metadata: Logger.Metadata = [
            "kind": "\(kind.rawValue)", "address": "\(request.clientAddress.host)", "outcome": "\(outcome.rawValue)",
        ]
        if let leniency { metadata["not_refused"] = "\(leniency.rawValue)" }
        line.write("Call with Kakao's credential from another address than Kakao's", metadata)
    }

    private static func refusal(of request: Request) -> Problem {
        Problem(
            of: .foreignAddress,
            "Kakao does not call from \(request.clientAddress.host), by its list of addresses. If the call is Kakao's, correct http.trusted_proxies, or set kakao.source_addresses to record."
        )
    }
}
