import FoundationEssentials
import Runtime

/// The batches of the last minutes that this server has sent, or may have sent: what it knows if PostgreSQL loses the results.
///
/// A batch that was sent at its first attempt, as nearly every one is, takes a bit. The older half is forgotten after
/// ``period``, or when there are very many.
struct KnownBatches {
    /// What is known of a batch.
    struct Batch: Sendable {
        let pushID: UUID
        let number: Int32
        /// The rejected batch that this one is a part of.
        let origin: Int32?
        /// Whether Kakao accepted it; if not, it may have.
        let isSent: Bool
    }

    /// The time, in milliseconds, for which a batch is known at least, unless there are too many.
    static let period: UInt64 = 300_000
    /// The number of rows of `push_claims` and `push_batches` at which the older half is forgotten: 10 MB.
    private static let maximumRows = 50_000

    /// Batches that share a row of `push_claims`.
    private struct Row: Hashable {
        let pushID: UUID
        let first: Int32
    }

    private struct Generation {
        var shared: [Row: UInt128] = [:]
        var own: [ClaimID: Batch] = [:]

        var rows: Int { shared.count + own.count }
    }

    private var current = Generation()
    private var previous = Generation()
    private var currentSince: UInt64 = 0

    /// Records a result, as soon as Kakao has responded.
    ///
    /// - Parameter now: A monotonic time in milliseconds.
    mutating func record(_ result: BatchResult, of claim: BatchClaim, at now: UInt64) {
        let isSent = result.state == .sent
        guard isSent || result.mayRepeat || result.state == .uncertain else { return }
        if now >= currentSince + Self.period || current.rows >= Self.maximumRows {
            previous = current
            current = Generation()
            currentSince = now
        }
        if isSent, claim.origin == nil, let shared = claim.shared {
            let row = Row(pushID: claim.pushID, first: shared.lowerBound)
            current.shared[row, default: 0] |= 1 << UInt128(claim.number - shared.lowerBound)
        } else {
            current.own[claim.id] = Batch(
                pushID: claim.pushID,
                number: claim.number,
                origin: claim.origin,
                isSent: isSent
            )
        }
    }

    /// The batches by push.
    var byPush: [UUID: [Batch]] {
        var batches: [UUID: [Batch]] = [:]
        for generation in [previous, current] {
            for (row, bits) in generation.shared {
                var rest = bits
                while rest != 0 {
                    let number = row.first + Int32(rest.trailingZeroBitCount)
                    batches[row.pushID, default: []].append(
                        Batch(pushID: row.pushID, number: number, origin: nil, isSent: true)
                    )
                    rest &= rest - 1
                }
            }
            for batch in generation.own.values { batches[batch.pushID, default: []].append(batch) }
        }
        return batches
    }
}
