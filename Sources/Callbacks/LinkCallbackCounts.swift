internal import Locking
internal import ServiceKit

/// The numbers of link callbacks that a server has received, by the outcome of their signatures.
final class LinkCallbackCounts: Sendable {
    private static let received = Metric(
        "kakao_push_link_callbacks_total",
        .counter,
        "Link callbacks received, by the outcome of the signature check: valid, expired, invalid, none."
    )
    private static let unsigned = "none"

    private let counts = Locked<[String: Int]>(
        Dictionary(uniqueKeysWithValues: (ShareSigner.Verdict.names + [unsigned]).map { ($0, 0) })
    )

    func count(_ signature: ShareSigner.Verdict?) {
        counts.withLock { $0[signature?.name ?? Self.unsigned, default: 0] += 1 }
    }

    func report() -> Monitoring.Report {
        let counts = counts.withLock { $0 }.sorted { $0.key < $1.key }
        return Monitoring.Report(metrics: [
            Self.received.reading("signature", counts.map { ($0.key, Double($0.value)) })
        ])
    }
}
