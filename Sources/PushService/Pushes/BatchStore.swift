internal import FoundationEssentials
internal import KakaoAPI
internal import Postgres

/// The batches in PostgreSQL, as the sender works on them.
///
/// Each change of a batch is guarded by its state and by the lease it was claimed under: a worker that was taken for dead can no
/// longer change anything.
final class BatchStore: Sendable {
    /// How long a claim lasts: longer than a call to Kakao may take, short enough for another server to take over in seconds.
    static let leaseSeconds: Int32 = 20

    private let pool: PostgresPool
    private let results: WriteCoalescer<Result, Void>

    /// What is written about a batch after an attempt.
    struct Result: Sendable {
        let claim: BatchClaim
        /// `waiting` to be tried again; `sent`, `failed` or `uncertain` for good.
        let state: String
        /// When it may be tried again.
        var delay = Duration.zero
        /// Whether the attempt counts.
        var countsAttempt = true
        var mayRepeat = false
        var status: Int?
        var code: Int?
        var message: String?
    }

    init(pool: PostgresPool) {
        self.pool = pool
        results = WriteCoalescer(
            pool: pool,
            statement: Self.finishStatement,
            parameters: Self.finishParameters,
            decode: { _, count in [Void](repeating: (), count: count) }
        )
    }

    /// Claims batches that are due, the longest waiting first, and such whose worker has died.
    ///
    /// A batch that was being sent when its worker died is sent again, since its push is to be delivered at least once, and is marked:
    /// its users may be reached twice. Under `at_most_once` it is left to ``abandonUncertain()``.
    func claim(limit: Int) async throws -> [BatchClaim] {
        let lease = UUID()
        let rows = try await pool.write(
            """
            WITH due AS (
                SELECT batch.push_id, batch.number
                FROM push_batches AS batch
                JOIN pushes AS push ON push.id = batch.push_id
                WHERE push.state = 'sending'
                    AND (
                        batch.state = 'waiting' AND batch.next_attempt_at <= now()
                        OR batch.state = 'sending' AND batch.lease_ends_at <= now() AND push.delivery = 'at_least_once'
                    )
                ORDER BY batch.next_attempt_at
                LIMIT $1
                FOR UPDATE OF batch SKIP LOCKED
            )
            UPDATE push_batches AS batch
            SET may_repeat = batch.may_repeat OR batch.state = 'sending',
                state = 'sending',
                attempts = batch.attempts + 1,
                lease = $2,
                lease_ends_at = now() + make_interval(secs => $3)
            FROM due
            JOIN pushes AS push ON push.id = due.push_id
            WHERE batch.push_id = due.push_id
                AND batch.number = due.number
            RETURNING batch.push_id, batch.number, batch.user_ids, push.message, push.message_version, push.bypass,
                push.delivery, batch.attempts
            """,
            [.int32(Int32(limit)), .uuid(lease), .float64(Double(Self.leaseSeconds))]
        )
        return try rows.map { row in
            let (pushID, number, userIDs, message, version, bypass, delivery, attempts) = try row.decode(
                UUID.self,
                Int32.self,
                [Int64].self,
                String.self,
                String.self,
                Bool.self,
                String.self,
                Int32.self
            )
            return BatchClaim(
                pushID: pushID,
                number: number,
                userIDs: userIDs,
                message: PushMessage(text: message, version: PushVersion(rawValue: version) ?? .v1),
                bypass: bypass,
                delivery: Delivery(rawValue: delivery) ?? .atLeastOnce,
                attempts: Int(attempts),
                lease: lease
            )
        }
    }

    /// Writes a result, together with those of other batches. Returns when it is committed.
    func finish(_ result: Result) async throws {
        try await results.submit(result)
    }

    private static let finishStatement = """
        UPDATE push_batches AS batch
        SET state = given.state,
            next_attempt_at = now() + make_interval(secs => given.delay),
            attempts = batch.attempts - CASE WHEN given.counts_attempt THEN 0 ELSE 1 END,
            may_repeat = batch.may_repeat OR given.may_repeat,
            kakao_status = given.kakao_status,
            kakao_code = given.kakao_code,
            kakao_message = given.kakao_message,
            finished_at = CASE WHEN given.state = 'waiting' THEN NULL ELSE now() END,
            lease = NULL,
            lease_ends_at = NULL
        FROM unnest(
            $1::uuid[], $2::int[], $3::uuid[], $4::text[], $5::float8[], $6::bool[], $7::bool[], $8::int[], $9::int[], $10::text[]
        ) AS given (
            push_id, number, lease, state, delay, counts_attempt, may_repeat, kakao_status, kakao_code, kakao_message
        )
        WHERE batch.push_id = given.push_id
            AND batch.number = given.number
            AND batch.state = 'sending'
            AND batch.lease = given.lease
        """

    private static func finishParameters(_ items: [Result]) -> [PostgresValue] {
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
        ]
    }

    /// Ends pushes of which no batch is left to be sent.
    ///
    /// A statement of its own, after the results are committed: of two servers that finish the last two batches, the later sees both.
    ///
    /// - Parameter ids: The pushes to look at; `nil` for all that are being sent, after a restart.
    func endFinishedPushes(_ ids: [UUID]?) async throws {
        _ = try await pool.write(
            """
            UPDATE pushes AS push
            SET state = 'done',
                finished_at = now()
            WHERE push.state = 'sending'
                AND ($2 OR push.id = ANY ($1))
                AND NOT EXISTS (
                    SELECT 1
                    FROM push_batches AS batch
                    WHERE batch.push_id = push.id
                        AND batch.state IN ('waiting', 'sending')
                )
            """,
            [.uuids(ids ?? []), .bool(ids == nil)]
        )
    }

    /// Gives up batches that are to be sent at most once and whose worker has died: nobody knows whether Kakao had them.
    func abandonUncertain() async throws {
        _ = try await pool.write(
            """
            UPDATE push_batches AS batch
            SET state = 'uncertain',
                finished_at = now(),
                lease = NULL,
                lease_ends_at = NULL
            FROM pushes AS push
            WHERE push.id = batch.push_id
                AND push.delivery = 'at_most_once'
                AND batch.state = 'sending'
                AND batch.lease_ends_at <= now()
            """
        )
    }

    /// Stops a push until an operator resumes it.
    func halt(_ id: UUID, reason: String) async throws {
        _ = try await pool.write(
            """
            UPDATE pushes
            SET state = 'halted',
                reason = $2
            WHERE id = $1
                AND state = 'sending'
            """,
            [.uuid(id), .text(reason)]
        )
    }
}
