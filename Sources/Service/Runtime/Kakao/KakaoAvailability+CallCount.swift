import EventLoop
import Logging
import Postgres

extension KakaoAvailability {
    /// The calls of all APIs together that Kakao allows an app in a month without a contract (Kakao: Quotas).
    package static let monthlyQuota: Int64 = 3_000_000

    /// Returns the worker that adds this server's calls each minute to those of all servers in the current month. A server
    /// that makes none writes nothing.
    package func callCounter(on services: LoopServices, logger: Logger) -> BackgroundWorker {
        BackgroundWorker(
            "count-kakao-calls",
            on: services.loop,
            every: .seconds(60),
            firstAfter: .seconds(60),
            stepsAfterStop: true,
            pace: nil,
            failure: "Calls to Kakao not counted",
            logger: logger
        ) { [pool = services.pool] _ in
            let calls = self.drainAnsweredCalls()
            guard calls > 0 else { return nil }
            do {
                try await pool.write(AddKakaoCalls(calls: calls))
            } catch {
                self.restore(answeredCalls: calls)
                throw error
            }
            return nil
        }
    }
}

// MARK: Statements

/// Adds calls to those of the current month.
struct AddKakaoCalls: PostgresStatement {
    static let sql: SQL = """
        INSERT INTO kakao_calls (month, calls)
        VALUES (date_trunc('month', now() AT TIME ZONE 'Asia/Seoul')::date, $1)
        ON CONFLICT (month) DO UPDATE
        SET calls = kakao_calls.calls + excluded.calls
        """

    let calls: Int64

    var parameters: [PostgresValue] { [.int64(calls)] }
}

/// Reads the number of calls in the current month.
package struct ReadKakaoCalls: PostgresStatement {
    package static let sql: SQL = """
        SELECT COALESCE(sum(calls), 0)::bigint
        FROM kakao_calls
        WHERE month = date_trunc('month', now() AT TIME ZONE 'Asia/Seoul')::date
        """

    package init() {}

    package static func decode(_ row: PostgresRow) throws -> Int64 { try row.decode(Int64.self) }
}
