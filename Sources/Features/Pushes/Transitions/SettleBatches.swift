import FoundationEssentials
import Postgres

extension BatchStore {
    /// Stores that batches without rows of their own were sent. Returns after it is committed.
    func recordSent(_ claims: [BatchClaim]) async throws {
        let items = claims.map { SettleBatches.Item(claim: $0, isSent: true) }
        try await pool.write(SettleBatches(items: items, slot: slot))
    }

    /// Gives a batch a row of its own, together with other batches. Returns after it is committed.
    func addRow(for claim: BatchClaim) async throws {
        try await settlements.submit(SettleBatches.Item(claim: claim, isSent: false))
    }
}

/// Stores that batches were sent at their first attempt, or gives them rows of their own, in which they are `sending`
/// as before.
///
/// Batches that share a row of `push_claims` are changed by one operation on its bits. Running the statement again,
/// after a lost response, changes nothing. The rows are changed by INSERT … ON CONFLICT, which finds the current rows
/// by their keys, whatever plan PostgreSQL chooses.
struct SettleBatches: CoalescedStatement {
    struct Item: Sendable {
        /// A claim with ``BatchClaim/shared``.
        let claim: BatchClaim
        /// Whether the batch was sent. If not, it gets a row of its own.
        let isSent: Bool
    }

    static let sql: SQL = """
        WITH given AS (
            SELECT *
            FROM unnest($1::uuid[], $2::int[], $3::uuid[], $4::text[]::bit varying[], $5::text[]::bit varying[]) AS item (
                push_id, number, lease, sent, own
            )
        ),
        claim AS MATERIALIZED (
            SELECT claim.push_id, claim.number, claim.batch_users, claim.users, claim.lease, claim.sent, claim.own,
                claim.settled | claim.sent | claim.own AS settled, CASE WHEN bit_count(claim.sent) > 0 THEN now() END AS finished_at
            FROM given
            CROSS JOIN LATERAL (
                SELECT push_id, number, batch_users, users, lease, settled, given.sent & ~settled AS sent, given.own & ~settled AS own
                FROM push_claims
                WHERE push_id = given.push_id
                    AND number = given.number
                    AND lease = given.lease
                LIMIT 1
                FOR UPDATE
            ) AS claim
        ),
        settled AS (
            INSERT INTO push_claims AS claim (push_id, number, batch_users, users, lease, settled, finished_at)
            SELECT push_id, number, batch_users, users, lease, settled, finished_at
            FROM claim
            ON CONFLICT (push_id, number) DO UPDATE
            SET settled = excluded.settled,
                finished_at = COALESCE(excluded.finished_at, claim.finished_at),
                lease = CASE WHEN bit_count(excluded.settled) < length(excluded.settled) THEN claim.lease END
        ),
        own AS (
            INSERT INTO push_batches (push_id, number, users, state, attempts, claims, lease)
            SELECT push_id, number + place, LEAST(batch_users, users - place * batch_users), 'sending', 1, 1, lease
            FROM claim
            CROSS JOIN generate_series(0, length(settled) - 1) AS place
            WHERE bit_count(own) > 0
                AND get_bit(own, place) = 1
        ),
        sent AS (
            SELECT push_id, bit_count(sent)::int AS batches,
                bit_count(sent)::int * batch_users
                    - get_bit(sent, length(sent) - 1) * (length(sent) * batch_users - users) AS users
            FROM claim
            WHERE bit_count(sent) > 0
        )
        INSERT INTO push_counts AS counts (push_id, slot, state, users, batches)
        SELECT push_id, $6, 'sent', sum(users), sum(batches)
        FROM sent
        GROUP BY push_id
        ORDER BY push_id
        ON CONFLICT (push_id, slot, state) DO UPDATE
        SET users = counts.users + excluded.users,
            batches = counts.batches + excluded.batches
        """

    let items: [Item]
    /// See ``BatchStore/slot``.
    let slot: Int32

    var parameters: [PostgresValue] {
        struct Row: Hashable {
            let pushID: UUID
            let number: Int32
            let lease: UUID
        }
        struct Bits {
            var sent: [UInt8]
            var own: [UInt8]

            init(count: Int) {
                sent = Array(repeating: UInt8(ascii: "0"), count: count)
                own = sent
            }
        }
        var rows: [Row: Bits] = [:]
        for item in items {
            guard let shared = item.claim.shared else { continue }
            let row = Row(pushID: item.claim.pushID, number: shared.lowerBound, lease: item.claim.lease)
            let place = Int(item.claim.number - shared.lowerBound)
            if item.isSent {
                rows[row, default: Bits(count: shared.count)].sent[place] = UInt8(ascii: "1")
            } else {
                rows[row, default: Bits(count: shared.count)].own[place] = UInt8(ascii: "1")
            }
        }
        // The order in which ``AddRowsOfSharedBatches`` locks them.
        let sorted = rows.sorted { ($0.key.pushID, $0.key.number) < ($1.key.pushID, $1.key.number) }
        return [
            .uuids(sorted.map(\.key.pushID)),
            .int32s(sorted.map(\.key.number)),
            .uuids(sorted.map(\.key.lease)),
            .texts(sorted.map { String(decoding: $0.value.sent, as: UTF8.self) }),
            .texts(sorted.map { String(decoding: $0.value.own, as: UTF8.self) }),
            .int32(slot),
        ]
    }
}
