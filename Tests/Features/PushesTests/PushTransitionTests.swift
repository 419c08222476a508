import FoundationEssentials
import KakaoAPI
import Postgres
import ServiceTesting
import TestSupport
import Testing

@testable import Endpoints
@testable import Pushes

/// The state machine of a push, as ``PushEvent`` describes it, against the statements and the database.
@Suite struct PushTransitionTests {
    @Test("Every event changes a push in every state as the table says", arguments: PushEvent.allCases)
    func walk(event: PushEvent) async throws {
        try await TestDatabase.with { database in
            for state in PushState.allCases {
                let push = StoredPush(pool: database.pool)
                try await push.insert(state, ready: event)
                try await push.run(event)
                let after = try await push.readState()
                if event.before.contains(state) {
                    #expect(event.after.contains(after), "\(event) in \(state): \(after)")
                } else {
                    #expect(after == state, "\(event) in \(state)")
                }
            }
        }
    }

    @Test("docs/delivery.md lists the actions that are possible in each state")
    func actions() throws {
        let page = try String(contentsOfFile: "\(TestFiles.repository)/docs/delivery.md", encoding: .utf8)
        let lines = page.split(separator: "\n")
        let head = try #require(lines.firstIndex { $0.hasPrefix("| state | `approve` |") })
        func cells(_ line: Substring) -> [String] {
            line.split(separator: "|").map { String($0.filter { $0 != " " && $0 != "`" }) }
        }
        let names = cells(lines[head]).dropFirst()
        #expect(names == ArraySlice(["state"] + PushEvent.actions.map(\.rawValue)).dropFirst())
        let rows = lines[(head + 2)...].prefix { $0.hasPrefix("|") }.map(cells)
        var expected: [[String]] = []
        for state in PushState.allCases {
            for awaitsApproval in [false, true] where state.canAwaitApproval || !awaitsApproval {
                // A proposed push waits for its approval until it expires.
                guard state != .proposed || awaitsApproval else { continue }
                let possible = state.actions(awaitsApproval: awaitsApproval)
                let name = state == .halted && awaitsApproval ? "halted,awaits_approval" : state.rawValue
                expected.append([name] + PushEvent.actions.map { possible.contains($0) ? "yes" : "–" })
            }
        }
        #expect(rows == expected)
    }

    @Test("A resumed push is where it was: scheduled, preparing or sending")
    func resume() async throws {
        try await TestDatabase.with { database in
            for state in [PushState.scheduled, .preparing, .sending] {
                let push = StoredPush(pool: database.pool)
                try await push.insert(state, ready: .pause)
                if state == .scheduled { try await push.set("send_at = now() + interval '1 hour'") }
                if state == .preparing { try await push.set("started_at = now()") }
                if state == .sending { try await push.set("prepared_at = now()") }
                try await push.run(.pause)
                #expect(try await push.readState() == .paused)
                try await push.run(.resume)
                #expect(try await push.readState() == state)
            }
        }
    }

    @Test("A push whose guard does not hold stays in its state", arguments: PushEvent.allCases)
    func guards(event: PushEvent) async throws {
        // The columns beside the state that prevent the event.
        let prevention: String? =
            switch event {
            case .prepare, .completePreparation: "prepared_up_to = 7"
            case .finish: "users = 5"
            case .expire: "expires_at = now() + interval '1 hour'"
            case .retry: "expires_at = now() - interval '1 hour'"
            case .expireProposal: "created_at = now() - interval '23 hours'"
            case .approve, .reject: "created_by_key = '\(UUID.zero.lowercased)', prepared_at = NULL"
            case .halt, .pause, .resume, .cancel, .outgrow: nil
            }
        guard let prevention else { return }
        try await TestDatabase.with { database in
            for state in event.before {
                let push = StoredPush(pool: database.pool)
                try await push.insert(state, ready: event)
                try await push.set(prevention)
                try await push.run(event)
                #expect(try await push.readState() == state, "\(event) in \(state)")
            }
        }
    }
}

extension PushState {
    fileprivate var canAwaitApproval: Bool { self == .proposed || self == .halted }
}

/// A push in one of the states.
private struct StoredPush {
    let pool: PostgresPool
    private let id = UUID()
    private let lease = UUID()

    init(pool: PostgresPool) {
        self.pool = pool
    }

    /// Stores the push such that only its state can prevent the event.
    func insert(_ state: PushState, ready event: PushEvent) async throws {
        try await pool.write(
            """
            WITH batch AS (
                INSERT INTO push_batches (push_id, number, user_ids, users, state, lease, claims)
                SELECT $1, 1, '{1}', 1, 'sending', $3, 1
                WHERE $4
            )
            INSERT INTO pushes (id, state, audience, message, message_version, send_at, created_by_key)
            VALUES ($1, $2, '{"everyone": true}', '{}', 'v1', now(), $1)
            """,
            [.uuid(id), .text(state.rawValue), .uuid(lease), .bool(event == .halt)]
        )
        switch event {
        case .expire: try await set("expires_at = now() - interval '1 second'")
        case .expireProposal: try await set("created_at = now() - interval '25 hours'")
        // Its audience has grown, if it is halted.
        case .approve, .reject: try await set("prepared_at = now(), users = 7, allowed_users = 6")
        case .outgrow: try await set("allowed_users = -1")
        case .retry:
            try await pool.write(
                "INSERT INTO push_counts (push_id, slot, state, users, batches) VALUES ($1, 0, 'failed', 1, 1)",
                [.uuid(id)]
            )
        case .prepare, .completePreparation, .finish, .halt, .pause, .resume, .cancel: break
        }
    }

    func set(_ assignment: String) async throws {
        try await pool.write("UPDATE pushes SET \(assignment) WHERE id = $1", [.uuid(id)])
    }

    func readState() async throws -> PushState {
        let row = try #require(try await pool.read("SELECT state FROM pushes WHERE id = $1", [.uuid(id)]).first)
        return try #require(PushState(rawValue: row.decode(String.self)))
    }

    func run(_ event: PushEvent) async throws {
        switch event {
        case .prepare: try await prepare(isLast: false)
        case .completePreparation, .outgrow: try await prepare(isLast: true)
        case .finish: try await pool.write(FinishPushes(ids: [id]))
        case .expire: try await pool.write(ExpirePush(id: id, hours: PushSettings().hours))
        case .halt:
            let claim = BatchClaim(
                pushID: id,
                number: 1,
                userIDs: [1],
                attempts: 1,
                claims: 1,
                origin: nil,
                lease: lease,
                shared: nil
            )
            try await pool.write(HaltPush(claim: claim, reason: "a test"))
        case .expireProposal: try await pool.write(ExpireProposals())
        case .approve: try await pool.write(ApprovePush(id: id, key: .setting))
        case .reject: try await pool.write(RejectPush(id: id, key: .setting, reason: nil, hours: PushSettings().hours))
        case .pause: try await pool.write(PausePush(id: id, operator: nil))
        case .resume: try await pool.write(ResumePush(id: id))
        case .cancel: try await pool.write(CancelPush(id: id, operator: nil, hours: PushSettings().hours))
        case .retry: try await pool.write(RetryPush(id: id, includesUncertain: false))
        }
    }

    /// Takes a step of the preparation: of an empty audience, which is the last one, or of 1,000 of many phones.
    private func prepare(isLast: Bool) async throws {
        try await pool.write("DELETE FROM devices")
        if !isLast {
            try await pool.write(
                """
                INSERT INTO devices (user_id, device_id, push_type, push_token)
                SELECT number, 'phone', 'fcm', 'token-' || number
                FROM generate_series(1, 1100) AS number
                """
            )
        }
        let page = try #require(try await AudiencePage.read(.everyone, from: 0, platforms: [], pool))
        #expect(page.isLast == isLast)
        let preparation = PreparationStore.Preparation(
            pushID: id,
            audience: .everyone,
            exclusion: ExcludedUsers(),
            needsConsent: false,
            platforms: [],
            isRetry: false,
            position: 0
        )
        let stored = try await PreparationStore(pool: pool).store(page, of: preparation)
        let state = try await readState()
        #expect((stored?.haltReason != nil) == (stored != nil && state == .halted))
    }
}
