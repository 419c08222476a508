import FoundationEssentials
import KakaoAPI
import Postgres
import ServiceTesting
import TestSupport
import Testing

@testable import Pushes
@testable import Runtime

/// The state machine of a batch, as ``BatchEvent`` describes it, against the statements and the database.
@Suite struct BatchTransitionTests {
    @Test("Every event changes a batch in every state as the table says", arguments: BatchEvent.allCases)
    func walk(event: BatchEvent) async throws {
        try await TestDatabase.with { database in
            for state in BatchState.allCases {
                let batch = StoredBatch(store: BatchStore(pool: database.pool))
                try await batch.insert(state, of: event)
                let before = try await batch.columns()
                try await batch.run(event)
                let after = try await batch.columns()
                let changed = Set(before.keys.filter { before[$0] != after[$0] })
                guard let expected = event.transitions[state] else {
                    #expect(changed.isEmpty, "\(event) in \(state): \(changed)")
                    continue
                }
                #expect(after["state"] == "\"\(expected.rawValue)\"", "\(event) in \(state)")
                #expect(changed.isSubset(of: event.columns), "\(event) in \(state): \(changed)")
            }
        }
    }

    @Test("A batch in flight changes only under its lease and for its claim", arguments: BatchEvent.allCases)
    func guards(event: BatchEvent) async throws {
        guard event.transitions[.sending] != nil, event.isBoundToClaim else { return }
        try await TestDatabase.with { database in
            for later in ["lease = gen_random_uuid()", "claims = claims + 1"] {
                let batch = StoredBatch(store: BatchStore(pool: database.pool))
                try await batch.insert(.sending, of: event)
                try await database.pool.write(
                    "UPDATE push_batches SET \(later) WHERE push_id = $1",
                    [.uuid(batch.pushID)]
                )
                let before = try await batch.columns()
                try await batch.run(event)
                #expect(try await batch.columns() == before, "\(event) after \(later)")
            }
        }
    }

    @Test("Each event that ends a batch counts its users, and a retry takes them back", arguments: BatchEvent.allCases)
    func counts(event: BatchEvent) async throws {
        try await TestDatabase.with { database in
            for (state, next) in event.transitions {
                let batch = StoredBatch(store: BatchStore(pool: database.pool))
                try await batch.insert(state, of: event)
                try await batch.run(event)
                let counted = try await database.pool.read(
                    "SELECT state, sum(users)::bigint FROM push_counts WHERE push_id = $1 GROUP BY state",
                    [.uuid(batch.pushID)]
                ).map { try $0.decode(String.self, Int64.self) }
                let users = Dictionary(uniqueKeysWithValues: counted)
                if next == .waiting || next == .sending {
                    #expect(users == (state == .sending || state == .waiting ? [:] : [state.rawValue: -2]))
                } else {
                    #expect(users == [next.rawValue: 2])
                }
            }
        }
    }

    @Test(
        "Each event that ends a batch counts users who may have been reached twice, and a retry takes them back",
        arguments: BatchEvent.allCases,
        [false, true]
    )
    func mayRepeat(event: BatchEvent, mayRepeat: Bool) async throws {
        try await TestDatabase.with { database in
            for (state, next) in event.transitions {
                let batch = StoredBatch(store: BatchStore(pool: database.pool))
                try await batch.insert(state, of: event)
                try await database.pool.write(
                    "UPDATE push_batches SET may_repeat = $2 WHERE push_id = $1",
                    [.uuid(batch.pushID), .bool(mayRepeat)]
                )
                try await batch.run(event)
                // It is known already that such a batch may have been sent.
                if event.isOfLostCommits, mayRepeat { continue }
                let counted = try await database.integer(
                    "SELECT COALESCE(sum(may_repeat), 0)::bigint FROM push_counts WHERE push_id = '\(batch.pushID)'"
                )
                let repeats = try await batch.columns()["may_repeat"] == "true"
                func users(_ state: BatchState, _ mayRepeat: Bool) -> Int64 {
                    state != .waiting && state != .sending && mayRepeat ? 2 : 0
                }
                #expect(counted == users(next, repeats) - users(state, mayRepeat), "\(state)")
            }
        }
    }
}

/// A batch of two users in one of the states, with a row of its own.
private struct StoredBatch {
    let store: BatchStore
    let pushID = UUID()
    private let lease = UUID()

    init(store: BatchStore) {
        self.store = store
    }

    func insert(_ state: BatchState, of event: BatchEvent) async throws {
        let delivery: Delivery = event == .abandon || event == .presumeUncertain ? .atMostOnce : .atLeastOnce
        let isRetried = event == .retry || event == .retryUncertain
        try await store.acquire(lease, for: .seconds(20))
        try await store.pool.write(
            """
            WITH push AS (
                INSERT INTO pushes (
                    id, state, audience, message, message_version, delivery, users, next_number, prepared_at,
                    retry_position, retry_end, retry_uncertain
                )
                VALUES (
                    $1, 'sending', '{}', '{}', 'v1', $4, 2, 2, now(), CASE WHEN $5 THEN 0 END, CASE WHEN $5 THEN 2 END, $6
                )
            )
            INSERT INTO push_batches (
                push_id, number, user_ids, users, state, lease, claims, attempts, next_attempt_at, finished_at,
                kakao_status, kakao_code, kakao_message
            )
            SELECT $1, 1, '{1, 2}', 2, $2, CASE WHEN $2 = 'sending' THEN $3::uuid END, 4, 3, now() - interval '1 hour',
                CASE WHEN $2 NOT IN ('waiting', 'sending') THEN now() - interval '1 hour' END, 599, -599, 'before'
            """,
            [
                .uuid(pushID), .text(state.rawValue), .uuid(lease), .text(delivery.rawValue), .bool(isRetried),
                .bool(event == .retryUncertain),
            ]
        )
    }

    /// Its columns as PostgreSQL writes them in JSON.
    func columns() async throws -> [String: String] {
        let row = "SELECT * FROM push_batches WHERE push_id = $1 AND number = 1"
        return try await store.pool.columns(ofRow: row, [.uuid(pushID)])
    }

    func run(_ event: BatchEvent) async throws {
        let claim = BatchClaim(
            pushID: pushID,
            number: 1,
            userIDs: [1, 2],
            attempts: 3,
            claims: 4,
            origin: nil,
            lease: lease,
            shared: nil
        )
        let error = KakaoError(kind: .refused(status: 400, code: .invalidParameter, message: "rejected"))
        switch event {
        case .claim: _ = try await store.claim([BatchStore.Share(pushID: pushID, batches: 1)], lease: lease)
        case .accept: try await store.record(.sent, of: claim)
        case .postpone:
            try await store.record(.retry(after: .seconds(9), mayRepeat: true, error), of: claim)
        case .release: try await store.record(.notSent, of: claim)
        case .fail: try await store.record(.failed(error), of: claim)
        case .loseResponse: try await store.record(.uncertain(error), of: claim)
        case .split: try await store.split(claim, .split(error), isRejectedRepeatedly: false)
        case .reclaim, .abandon:
            try await store.pool.write("UPDATE work_leases SET ends_at = now() WHERE id = $1", [.uuid(lease)])
            _ = try await store.reclaim(except: UUID())
        case .restore, .presume, .presumeUncertain:
            var known = KnownBatches()
            known.record(event == .restore ? .sent : .uncertain(error), of: claim)
            _ = try await ReportedLoss.of { try await store.restore(known, $0) }
        case .retry, .retryUncertain:
            _ = try await PreparationStore(pool: store.pool).retryBatches(of: pushID)
        }
    }
}

extension BatchEvent {
    /// Whether the event changes a batch in flight only under its lease and for its claim.
    fileprivate var isBoundToClaim: Bool { self != .reclaim && self != .abandon && !isOfLostCommits }

    fileprivate var isOfLostCommits: Bool { [.restore, .presume, .presumeUncertain].contains(self) }

    /// The columns that the event sets.
    fileprivate var columns: Set<String> {
        let answer: Set = ["kakao_status", "kakao_code", "kakao_message"]
        return switch self {
        case .claim: ["state", "attempts", "claims", "lease"]
        case .accept, .fail, .loseResponse: answer.union(["state", "finished_at", "lease", "may_repeat"])
        case .postpone: answer.union(["state", "next_attempt_at", "lease", "may_repeat", "finished_at"])
        case .release: answer.union(["state", "next_attempt_at", "lease", "attempts", "finished_at"])
        case .split: answer.union(["state", "next_attempt_at", "lease", "attempts", "origin", "user_ids", "users"])
        case .reclaim, .abandon: answer.union(["state", "next_attempt_at", "lease", "finished_at", "may_repeat"])
        case .restore, .presume, .presumeUncertain:
            answer.union(["state", "next_attempt_at", "lease", "finished_at", "may_repeat"])
        case .retry, .retryUncertain: ["state", "attempts", "next_attempt_at", "finished_at", "may_repeat"]
        }
    }
}
