import EventLoop
import FoundationEssentials
import Runtime

/// What this server knows about batches if PostgreSQL loses their results: those of the last minutes that it has sent, or may have
/// sent.
///
/// A batch that was sent at its first attempt, as nearly every one is, takes a bit.
struct KnownBatches {
    /// A batch that this server has sent, or may have sent.
    struct Batch: Sendable {
        let pushID: UUID
        let number: Int32
        /// The number of claims of the batch, including the one by which it was sent.
        let claims: Int32
        /// The rejected batch that this one is a part of.
        let origin: Int32?
        /// Whether Kakao has confirmed that it accepted the batch.
        let isSent: Bool
    }

    /// Batches that share a row of `push_claims`.
    private struct Row: Hashable {
        let pushID: UUID
        let first: Int32
    }

    /// A bit for each batch of a row, from its first one on. 10 MB when full.
    private var shared = RecentValues<Row, UInt128>(maximum: 100_000)
    /// The row of the last batch, which is not in ``shared`` yet: most batches are of the row of the one before.
    private var last: (row: Row, bits: UInt128, since: MonotonicTime)?
    private var own = RecentValues<ClaimID, Batch>(maximum: 100_000)

    /// Records a result, as soon as Kakao has responded.
    mutating func record(
        _ result: BatchResult,
        of claim: BatchClaim,
        at now: @autoclosure () -> MonotonicTime = .now
    ) {
        let isSent = result.state == .sent
        guard isSent || result.mayRepeat || result.state == .uncertain else { return }
        if isSent, claim.origin == nil, let range = claim.shared {
            let row = Row(pushID: claim.pushID, first: range.lowerBound)
            let bit: UInt128 = 1 << UInt128(claim.number - range.lowerBound)
            if last?.row == row {
                last?.bits |= bit
            } else {
                storeLastRow()
                last = (row, bit, now())
            }
        } else {
            let batch = Batch(
                pushID: claim.pushID,
                number: claim.number,
                claims: claim.claims,
                origin: claim.origin,
                isSent: isSent
            )
            own.store(batch, for: claim.id, at: now())
        }
    }

    private mutating func storeLastRow() {
        guard let (row, bits, since) = last else { return }
        shared.update(row, from: 0, at: since) { $0 |= bits }
        last = nil
    }

    /// The batches by push.
    var byPush: [UUID: [Batch]] { byPush(at: .now) }

    func byPush(at now: MonotonicTime) -> [UUID: [Batch]] {
        var batches = Dictionary(grouping: own.all(at: now) { $1 }.values, by: \.pushID)
        var known = self
        known.storeLastRow()
        for (row, bits) in known.shared.all(at: now, combining: |) {
            var rest = bits
            while rest != 0 {
                let number = row.first + Int32(rest.trailingZeroBitCount)
                batches[row.pushID, default: []].append(
                    Batch(pushID: row.pushID, number: number, claims: 1, origin: nil, isSent: true)
                )
                rest &= rest - 1
            }
        }
        return batches
    }
}
