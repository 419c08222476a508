import FoundationEssentials
import JSON
import KakaoSandbox
import Postgres
import Runtime

/// The invariants that hold at the end of every run, whatever the fault.
struct Invariants {
    let run: Run
    let sandbox: KakaoSandbox
    let pool: PostgresPool
    /// Sends a GET request for a path of the API.
    let get: (String) async throws -> JSONValue

    /// The batches and claims of a push that are still open in the database.
    struct OpenWork: CustomStringConvertible {
        var state = "unknown"
        var waiting: Int64 = 0
        var sending: Int64 = 0
        var claims: Int64 = 0
        var unclaimed: Int64 = 0

        var isDone: Bool { state == "done" && waiting + sending + claims + unclaimed == 0 }

        var description: String {
            """
            state \(state), batches waiting \(waiting), sending \(sending), open claims \(claims), parts with unclaimed batches \
            \(unclaimed)
            """
        }
    }

    /// Returns the marker of a run, by which the sandbox counts the users that the run reaches.
    static func marker(of run: Run) -> String { "run-\(run.number)" }

    static func openWork(of push: String, _ pool: PostgresPool) async throws -> OpenWork {
        try await pool.read(ReadOpenWork(push: UUID(uuidString: push))).first ?? OpenWork()
    }

    /// A batch as the API shows it.
    private struct Batch {
        let number: Int64
        let state: String
        let mayRepeat: Bool
        let users: [Int64]
    }

    /// Returns a sentence for each violation.
    func violations(of push: String) async throws -> [String] {
        let batches = try await batches(of: push)
        var violations = outcomes(batches)
        violations += counts(try await get("/v1/pushes/\(push)"), batches)
        violations += try await leases()
        return violations
    }

    private func batches(of push: String) async throws -> [Batch] {
        var batches: [Batch] = []
        var cursor: String? = "0"
        while let next = cursor {
            let page = try await get("/v1/pushes/\(push)/batches?limit=1000&cursor=\(next)")
            for item in page["items"]?.array ?? [] {
                batches.append(
                    Batch(
                        number: item["number"]?.integer ?? 0,
                        state: item["state"]?.string ?? "",
                        mayRepeat: item["may_repeat"]?.bool ?? false,
                        users: (item["uuids"]?.array ?? []).compactMap { $0.string.flatMap { Int64($0) } }
                    )
                )
            }
            cursor = page["next"]?.string
        }
        return batches
    }

    /// Checks that each user has exactly one outcome, and that it agrees with Kakao's ledger.
    private func outcomes(_ batches: [Batch]) -> [String] {
        let marker = Self.marker(of: run)
        var found = Findings()
        var seen: Set<Int64> = []
        var uncertainBatches = 0
        var repeatedBatches: Set<Int64> = []
        for batch in batches {
            for user in batch.users {
                if !seen.insert(user).inserted { found.add("are in two batches", user, batch.number) }
                let times = sandbox.timesReached(user, marker: marker)
                switch batch.state {
                case "sent":
                    if times == 0 { found.add("count as sent although no push was sent to them", user, batch.number) }
                case "failed":
                    if user != Scenario.refusedUser {
                        found.add("failed although Kakao accepts them", user, batch.number)
                    }
                case "uncertain":
                    if times == 0, run.losableLeases + run.lostRequests == 0 {
                        found.add(
                            "are uncertain although no byte was sent for them and no lease could be lost",
                            user,
                            batch.number
                        )
                    }
                default:
                    found.add("are in a batch that is \(batch.state)", user, batch.number)
                }
                guard times > 1 else { continue }
                if !batch.mayRepeat { found.add("were reached \(times) times without may_repeat", user, batch.number) }
                if run.delivery == .atMostOnce {
                    found.add("were reached \(times) times although at_most_once", user, batch.number)
                }
                repeatedBatches.insert(batch.number)
                if run.losableLeases + run.lostRequests == 0 {
                    found.add("were reached \(times) times although no lease could be lost", user, batch.number)
                }
            }
            if batch.state == "uncertain" { uncertainBatches += 1 }
        }
        for user in 1...Int64(Scenario.users) where !seen.contains(user) { found.add("are in no batch", user, 0) }
        var violations = found.sentences
        if run.lostRequests > 0, uncertainBatches + repeatedBatches.count > run.lostRequests {
            violations.append(
                "\(run.lostRequests) request was lost, but \(uncertainBatches) batches are uncertain and \(repeatedBatches.count) "
                    + "were sent twice"
            )
        }
        let held = 2 * Scenario.maximumConcurrentRequests * max(1, run.losableLeases)
        if run.delivery == .atMostOnce, uncertainBatches > held {
            violations.append(
                "\(uncertainBatches) batches are uncertain, but the lost leases held at most \(held)"
            )
        }
        return violations
    }

    /// Checks that the push's counts are those of its batches.
    private func counts(_ push: JSONValue, _ batches: [Batch]) -> [String] {
        var violations: [String] = []
        let state = push["state"]?.string ?? ""
        if state != "done" { violations.append("the API shows the push as \(state)") }
        func expect(_ name: String, _ expected: Int) {
            let actual = push["users"]?[name]?.integer ?? -1
            if actual != Int64(expected) {
                violations.append("the API counts \(actual) users as \(name), its batches hold \(expected)")
            }
        }
        for name in ["sent", "failed", "uncertain"] {
            expect(name, batches.reduce(0) { $0 + ($1.state == name ? $1.users.count : 0) })
        }
        expect("total", Scenario.users)
        expect("skipped", 0)
        expect("pending", 0)
        return violations
    }

    /// Checks that no claim or batch is held under a lease, in particular under one that does not exist.
    private func leases() async throws -> [String] {
        try await pool.read(FindHeldWork()).map { held in
            "\(held.what) is still open under the lease \(held.lease?.uuidString ?? "NULL")"
                + (held.leaseExists ? "" : ", which does not exist")
        }
    }
}

/// The violations of users, grouped into one sentence for each kind.
private struct Findings {
    private var users: [(what: String, users: [Int64], batches: Set<Int64>)] = []

    mutating func add(_ what: String, _ user: Int64, _ batch: Int64) {
        if let index = users.firstIndex(where: { $0.what == what }) {
            users[index].users.append(user)
            users[index].batches.insert(batch)
        } else {
            users.append((what, [user], [batch]))
        }
    }

    var sentences: [String] {
        users.map { finding in
            let batches = finding.batches.sorted().prefix(8).map(String.init).joined(separator: ", ")
            return "\(finding.users.count) users \(finding.what) (the first: \(finding.users[0]); batches \(batches))"
        }
    }
}

// MARK: Statements

/// Reads the state of a push, and counts its open batches and claims.
struct ReadOpenWork: PostgresStatement {
    static let sql: SQL = """
        SELECT state,
            (SELECT count(*) FROM push_batches WHERE push_id = push.id AND state = 'waiting'),
            (SELECT count(*) FROM push_batches WHERE push_id = push.id AND state = 'sending'),
            (SELECT count(*) FROM push_claims WHERE push_id = push.id AND lease IS NOT NULL),
            (SELECT count(*) FROM push_parts WHERE push_id = push.id AND claimed < batches)
        FROM pushes AS push
        WHERE id = $1
        """

    let push: UUID?

    var parameters: [PostgresValue] { [.uuid(push)] }

    static func decode(_ row: PostgresRow) throws -> Invariants.OpenWork {
        try row.decode { column in
            Invariants.OpenWork(
                state: try column.next(),
                waiting: try column.next(),
                sending: try column.next(),
                claims: try column.next(),
                unclaimed: try column.next()
            )
        }
    }
}

/// Finds claims and batches that are held under a lease, at most ten, and whether the lease exists.
struct FindHeldWork: PostgresStatement {
    static let sql: SQL = """
        SELECT held.lease, held.what, EXISTS (SELECT 1 FROM work_leases WHERE id = held.lease)
        FROM (
            SELECT lease, 'a claim' AS what FROM push_claims WHERE lease IS NOT NULL
            UNION ALL
            SELECT lease, 'a batch' FROM push_batches WHERE state = 'sending'
        ) AS held
        LIMIT 10
        """

    static func decode(_ row: PostgresRow) throws -> (lease: UUID?, what: String, leaseExists: Bool) {
        try row.decode(UUID?.self, String.self, Bool.self)
    }
}
