internal import FoundationEssentials
internal import Postgres

// What has become of batches.
extension BatchStore {
    // MARK: With a row of their own

    /// Writes a result, together with those of other batches. Returns when it is committed.
    func finish(_ result: BatchResult) async throws {
        try await results.submit(result)
    }

    // A batch has a lease only while it is being sent. It is looked for by its key, one after the other, and not among all that this server
    // holds, which is what the index of leases would make of it. If somebody changes it meanwhile it is in another place, and left alone.
    static let finishStatement = """
        WITH given AS (
            SELECT *
            FROM unnest(
                $1::uuid[], $2::int[], $3::uuid[], $4::text[], $5::float8[], $6::bool[], $7::bool[], $8::int[], $9::int[],
                $10::text[], $11::int[]
            ) AS item (
                push_id, number, lease, state, delay, counts_attempt, may_repeat, kakao_status, kakao_code, kakao_message, claims
            )
        ),
        batch AS (
            UPDATE push_batches AS batch
            SET state = given.state,
                next_attempt_at = CASE
                    WHEN given.state = 'waiting' THEN now() + make_interval(secs => given.delay)
                    ELSE batch.next_attempt_at
                END,
                attempts = batch.attempts - CASE WHEN given.counts_attempt THEN 0 ELSE 1 END,
                may_repeat = batch.may_repeat OR given.may_repeat,
                kakao_status = given.kakao_status,
                kakao_code = given.kakao_code,
                kakao_message = given.kakao_message,
                finished_at = CASE WHEN given.state = 'waiting' THEN NULL ELSE now() END,
                lease = NULL
            FROM given
            CROSS JOIN LATERAL (
                SELECT ctid AS place
                FROM push_batches
                WHERE push_id = given.push_id
                    AND number = given.number
                    AND lease IS NOT DISTINCT FROM given.lease
                    AND claims = given.claims
                LIMIT 1
            ) AS found
            WHERE batch.ctid = found.place
            RETURNING batch.push_id, batch.state, batch.users, 1 AS batches
        )
        \(countStatement(slot: "$12", of: "batch"))
        """

    /// Adds what has become of the rows of `batch` to the counts of their pushes.
    ///
    /// In the order of the key, so that two statements never wait for each other in a circle.
    static func countStatement(slot: String, of batch: String) -> String {
        """
        INSERT INTO push_counts AS counts (push_id, slot, state, users, batches)
        SELECT push_id, \(slot), state, sum(users), sum(batches)
        FROM \(batch)
        WHERE state <> 'waiting'
        GROUP BY push_id, state
        ORDER BY push_id, state
        ON CONFLICT (push_id, slot, state) DO UPDATE
        SET users = counts.users + excluded.users,
            batches = counts.batches + excluded.batches
        """
    }

    static func finishParameters(_ items: [BatchResult], slot: Int32) -> [PostgresValue] {
        [
            .uuids(items.map(\.claim.pushID)),
            .int32s(items.map(\.claim.number)),
            .uuids(items.map(\.claim.lease)),
            .texts(items.map(\.state)),
            .float64s(items.map(\.delay.inSeconds)),
            .bools(items.map(\.countsAttempt)),
            .bools(items.map(\.mayRepeat)),
            .int32s(items.map { $0.status.map(Int32.init(clamping:)) }),
            .int32s(items.map { $0.code.map(Int32.init(clamping:)) }),
            .texts(items.map(\.message)),
            .int32s(items.map(\.claim.claims)),
            .int32(slot),
        ]
    }

    // MARK: At their first attempt

    /// That nothing more is to be written about a batch where it shares a row with others.
    struct Settlement: Sendable {
        let claim: BatchClaim
        let shared: Range<Int32>
        /// Otherwise it gets a row of its own, and is being sent as before.
        let isSent: Bool
    }

    /// Writes that batches have been sent at their first attempt, or gives them rows of their own.
    func settle(_ settlements: [Settlement]) async throws {
        _ = try await pool.write(Self.settleStatement, Self.settleParameters(settlements, slot: slot))
    }

    /// Gives a batch a row of its own, together with others. Returns when it is committed.
    func giveRow(_ claim: BatchClaim, _ shared: Range<Int32>) async throws {
        try await settlements.submit(Settlement(claim: claim, shared: shared, isSent: false))
    }

    // Those of a row are written by one operation on its bits. Repeated, since nobody knows whether the first time was committed, it changes
    // nothing. The rows are changed by INSERT, for it finds them by their keys, whatever the planner believes, and as they are now.
    static let settleStatement = """
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
            \(ownRows(of: "claim", places: "own"))
        ),
        sent AS (
            SELECT push_id, 'sent' AS state, bit_count(sent)::int AS batches,
                bit_count(sent)::int * batch_users
                    - get_bit(sent, length(sent) - 1) * (length(sent) * batch_users - users) AS users
            FROM claim
            WHERE bit_count(sent) > 0
        )
        \(countStatement(slot: "$6", of: "sent"))
        """

    /// Gives batches of the first attempt rows of their own: of each of `claims` those with a 1 in `places`.
    static func ownRows(of claims: String, places: String) -> String {
        """
        INSERT INTO push_batches (push_id, number, users, state, attempts, claims, lease)
        SELECT push_id, number + place, LEAST(batch_users, users - place * batch_users), 'sending', 1, 1, lease
        FROM \(claims)
        CROSS JOIN generate_series(0, length(settled) - 1) AS place
        WHERE bit_count(\(places)) > 0
            AND get_bit(\(places), place) = 1
        """
    }

    static func settleParameters(_ items: [Settlement], slot: Int32) -> [PostgresValue] {
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
            let row = Row(pushID: item.claim.pushID, number: item.shared.lowerBound, lease: item.claim.lease)
            let place = Int(item.claim.number - item.shared.lowerBound)
            if item.isSent {
                rows[row, default: Bits(count: item.shared.count)].sent[place] = UInt8(ascii: "1")
            } else {
                rows[row, default: Bits(count: item.shared.count)].own[place] = UInt8(ascii: "1")
            }
        }
        // In the order in which a server that takes over locks them.
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
