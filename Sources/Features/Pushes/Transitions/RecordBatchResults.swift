import Endpoints
import Postgres

extension BatchStore {
    /// Stores the result of a batch with a row of its own, together with those of other batches. Returns after it is
    /// committed.
    func record(_ result: BatchResult, of claim: BatchClaim) async throws {
        try await results.submit(RecordBatchResults.Item(claim: claim, result: result))
    }
}

/// Stores results of batches with rows of their own, and counts them.
///
/// A result counts only for the claim that it belongs to, under the lease of that claim. A batch is found by its key,
/// and not among all batches of the lease, which the planner would prefer. Its lease and claim are compared again when it
/// is updated, because another transaction may have changed it meanwhile: versions of PostgreSQL before November 2025 do
/// not compare the place (`ctid`) again.
struct RecordBatchResults: CoalescedStatement {
    struct Item: Sendable {
        let claim: BatchClaim
        let result: BatchResult
    }

    static let sql: SQL = """
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
                AND batch.lease IS NOT DISTINCT FROM given.lease
                AND batch.claims = given.claims
            RETURNING batch.push_id, batch.state, batch.users, batch.may_repeat
        )
        INSERT INTO push_counts AS counts (push_id, slot, state, users, batches, may_repeat)
        SELECT push_id, $12, state, sum(users), count(*), COALESCE(sum(users) FILTER (WHERE may_repeat), 0)
        FROM batch
        WHERE state <> 'waiting'
        GROUP BY push_id, state
        ORDER BY push_id, state
        ON CONFLICT (push_id, slot, state) DO UPDATE
        SET users = counts.users + excluded.users,
            batches = counts.batches + excluded.batches,
            may_repeat = counts.may_repeat + excluded.may_repeat
        """

    let items: [Item]
    /// See ``BatchStore/slot``.
    let slot: Int32

    var parameters: [PostgresValue] {
        [
            .uuids(items.map(\.claim.pushID)),
            .int32s(items.map(\.claim.number)),
            .uuids(items.map(\.claim.lease)),
            .texts(items.map(\.result.state.rawValue)),
            .float64s(items.map(\.result.delay.inSeconds)),
            .bools(items.map(\.result.countsAttempt)),
            .bools(items.map(\.result.mayRepeat)),
            .int32s(items.map { $0.result.status.map(Int32.init(clamping:)) }),
            .int32s(items.map { $0.result.code.map(Int32.init(clamping:)) }),
            .texts(items.map(\.result.message)),
            .int32s(items.map(\.claim.claims)),
            .int32(slot),
        ]
    }
}
