import Crypto
import FoundationEssentials
import HTTPClient
import HTTPServer
import HTTPTypes
import JSON
import KakaoSandbox
import Logging
import Net
import Postgres
import ServiceTesting
import TestSupport
import Testing

@testable import Endpoints
@testable import Identity
@testable import Runtime
@testable import Server
@testable import Settings

/// Operators' keys: revocation, expiry, last use, and delays after invalid keys.
@Suite(.timeLimit(.minutes(5))) struct OperatorKeyTests {
    private static let path = "/v1/push/tokens"

    /// Calls a device endpoint with a key.
    private static func call(_ api: TestClient, _ key: String) async throws -> HTTPClientResponse {
        try await api.with("Bearer \(key)").get(path, ["uuid": "1"])
    }

    private static func makeKey(_ database: TestDatabase, _ expiresAt: Date? = nil) async throws -> String {
        try await OperatorKeyStore(pool: database.pool).create(name: "made", scopes: [.devices], expiresAt: expiresAt)
    }

    /// Returns the number of statements that the server has sent to its database.
    private static func statements(_ api: TestClient) async throws -> Double {
        let metrics = try Exposition(try await api.get("/metrics").body)
        return try #require(metrics.value("kakao_push_database_statements_total"))
    }

    // MARK: Validity

    @Test("A revoked key is soon rejected by every server on the database, even if it is in constant use")
    func revocation() async throws {
        try await withService { service in
            let key = try await Self.makeKey(service.database)
            try await RunningServer.with(service.settings) { other in
                for api in [service.api, other] { #expect(try await Self.call(api, key).status == 200) }
                let store = OperatorKeyStore(pool: service.database.pool)
                let made = try #require(try await store.list().first)
                #expect(made.name == "made")
                #expect(try await store.revoke(id: made.id))
                #expect(try await !store.revoke(id: made.id))
                for api in [service.api, other] {
                    try await eventually("the key is rejected") { try await Self.call(api, key).status == 401 }
                }
            }
        }
    }

    @Test("A key expires at its expiry time")
    func expiry() async throws {
        try await withService { service in
            try await withLifetime { seconds in
                let key = try await Self.makeKey(service.database, Date() + Double(seconds))
                guard try await Self.call(service.api, key).status == 200 else { return false }
                try await eventually("the key has expired") { try await Self.call(service.api, key).status == 401 }
                return true
            }
        }
    }

    @Test("A key in constant use is not looked up for each request")
    func remembered() async throws {
        try await withService { service in
            let key = try await Self.makeKey(service.database)
            let (start, before) = (ContinuousClock.now, try await Self.statements(service.api))
            for _ in 0..<300 { #expect(try await Self.call(service.api, key).status == 200) }
            let count = try await Self.statements(service.api) - before
            let seconds = (ContinuousClock.now - start) / .seconds(1)
            // Each request runs one statement to list devices, and one for the audit log, which requests may share. Each of two
            // loops may look the key up once a second, and the server's workers run statements too.
            #expect(count >= 300)
            #expect(count < 650 + 5 * seconds)
        }
    }

    @Test("A request after the revocation of a key is not accepted by the result of an older lookup")
    func oldAnswer() async throws {
        try await TestDatabase.with { database in
            let store = OperatorKeyStore(pool: database.pool)
            let digest = SHA256Digest.of(try await Self.makeKey(database))
            let (keys, address, loop) = (OperatorKeys(), try Self.network, try Shared.loop)
            @Sendable func scopes() async throws -> Set<Scope>? {
                try await keys.key(of: .key(digest), from: address, store, on: loop)?.scopes
            }
            // A lookup sees the key as of its start, and returns only when the gate is opened.
            try await database.pool.write("ALTER TABLE operator_keys RENAME TO stored_keys")
            try await database.pool.write(
                "CREATE VIEW operator_keys AS SELECT *, pg_advisory_xact_lock_shared(7)::text AS gate FROM stored_keys"
            )
            let answers = try await database.pool.withConnection { gate in
                try await gate.query("SELECT pg_advisory_lock(7)")
                async let early = scopes()
                let admin = try await TestServer.admin.pool
                let waits = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND objid = 7 AND NOT granted"
                try await eventually("the key has been looked up") {
                    try await admin.read(waits).first?.decode(Int64.self) == 1
                }
                let start = ContinuousClock.now
                try await database.pool.write("UPDATE stored_keys SET revoked_at = now()")
                try await eventually("the lookup is too old") { ContinuousClock.now - start > .milliseconds(1200) }
                async let late = scopes()
                try await eventually("the second lookup waits") { ContinuousClock.now - start > .milliseconds(1400) }
                try await gate.query("SELECT pg_advisory_unlock(7)")
                return try await [early, late]
            }
            #expect(answers == [[.devices], nil])
        }
    }

    // MARK: Last use

    @Test("The last use of a key is written before the server ends, and never moves back")
    func lastUse() async throws {
        try await withDatabaseAndKakao { database, kakao in
            let log = CollectedLog()
            let server = try await RunningServer.start(.test(database.url, kakao: kakao.sandbox.url), log: log)
            let (used, unused) = (try await Self.makeKey(database), try await Self.makeKey(database))
            let store = OperatorKeyStore(pool: database.pool)
            for _ in 0..<3 { #expect(try await Self.call(TestClient(url: server.url), used).status == 200) }
            // Uses are not written with each request.
            #expect(try await store.list().allSatisfy { $0.lastUsedAt == nil })
            try await server.stop()
            let listed = try await store.list()
            let lastUsedAt = try #require(listed[0].lastUsedAt)
            #expect(lastUsedAt >= listed[0].createdAt && lastUsedAt <= Date())
            #expect(listed[1].lastUsedAt == nil)

            let digests = [used, unused].map { SHA256Digest.of($0) }
            try await database.pool.write(
                RecordOperatorKeyUses(uses: [digests[0]: lastUsedAt - 60, digests[1]: lastUsedAt - 60])
            )
            try await database.pool.write(RecordOperatorKeyUses(uses: [SHA256Digest.of("no key"): lastUsedAt]))
            let after = try await store.list().map(\.lastUsedAt)
            #expect(after[0] == lastUsedAt)
            #expect(after[1] != nil && after[1] != lastUsedAt)
        }
    }

    @Test("A use that cannot be written is logged, and kept for a retry")
    func unwritten() async throws {
        try await TestDatabase.with { database in
            let digest = SHA256Digest.of(try await Self.makeKey(database))
            let (keys, address, log) = (OperatorKeys(), try Self.network, CollectedLog())
            let store = OperatorKeyStore(pool: database.pool)
            func scopes() async throws -> Set<Scope>? {
                try await keys.key(of: .key(digest), from: address, store, on: Shared.loop)?.scopes
            }
            func write() async throws {
                let writer = keys.useWriter(store, on: try Shared.loop, logger: log.logger)
                writer.stop()
                await writer.run()
            }
            #expect(try await scopes() == [.devices])
            try await database.pool.write("ALTER TABLE operator_keys RENAME TO stored_keys")
            try await write()
            #expect(log.lines.map(\.level) == [.warning])
            try await database.pool.write("ALTER TABLE stored_keys RENAME TO operator_keys")
            try await write()
            #expect(try await store.list().allSatisfy { $0.lastUsedAt != nil })
            #expect(keys.drainUses().isEmpty)
            #expect(log.lines.count == 1)
        }
    }

    // MARK: Invalid keys

    @Test(
        "An address with invalid keys is delayed; cached keys, the key in the settings and users' tokens are accepted"
    )
    func delay() async throws {
        let adjust = { (settings: inout Settings) in
            settings.kakao.appID = 123_456
            settings.identity.acceptsKakaoAccessTokens = true
            settings.http.trustedProxies = TrustedProxies("127.0.0.1") ?? .none
        }
        try await withService(adjust) { service in
            let api = service.api.from("203.0.113.7")
            let known = try await Self.makeKey(service.database)
            #expect(try await Self.call(api, known).status == 200)
            let user = try #require(service.kakao.sandbox.accessToken(of: 1))
            for number in 0..<BadKeyDelays.allowance {
                #expect(try await Self.call(api, "kps_bad-\(number)").status == 401)
            }
            try await eventually("the address is delayed") {
                // The delay may expire during the checks; the next one is longer.
                guard try await Self.call(api, "kps_bad").status == 429 else { return false }
                let unknown = try await Self.makeKey(service.database)
                let keys = [known, Keys.operator, user, unknown]
                let statuses = try await keys.asyncMap { try await Self.call(api, $0).status }
                let other = try await Self.call(service.api.from("203.0.113.8"), "kps_bad").status
                let refusal = try await Self.call(api, "kps_bad")
                guard refusal.status == 429 else { return false }
                #expect(statuses == [200, 200, 200, 429])
                #expect(other == 401)
                #expect(refusal.json?["type"] == "urn:kakao-push-server:error:too-many-bad-keys")
                #expect(refusal.json?["code"] == -10)
                // The present key need not be invalid.
                let detail = refusal.json?["detail"]?.string ?? ""
                #expect(detail.hasPrefix("Too many invalid credentials came from this network."), "\(detail)")
                #expect(detail.contains("even a valid one") && detail.contains("Try again in "), "\(detail)")
                #expect(refusal.headerFields[.contentType] == "application/problem+json")
                #expect((1...900).contains(refusal.headerFields[.retryAfter].flatMap { Int($0) } ?? 0))
                return true
            }
            // A cached key that is revoked is invalid like any other.
            let store = OperatorKeyStore(pool: service.database.pool)
            _ = try await store.revoke(name: "made")
            try await eventually("the key is rejected") { try await Self.call(api, known).status != 200 }
        }
    }

    @Test("10,000 different invalid keys cause few database lookups, and a valid key is still accepted")
    func flood() async throws {
        try await withService { service in
            let key = try await Self.makeKey(service.database)
            #expect(try await Self.call(service.api, key).status == 200)
            let before = try await Self.statements(service.api)
            for round in 0..<50 {
                try await withThrowingTaskGroup(of: Int.self) { group in
                    for number in 0..<200 {
                        group.addTask { try await Self.call(service.api, "kps_\(round)-\(number)").status }
                    }
                    for try await status in group { #expect([401, 429].contains(status)) }
                }
                #expect(try await Self.call(service.api, key).status == 200)
            }
            // Concurrent keys are looked up before the first of them is found to be invalid.
            #expect(try await Self.statements(service.api) - before < 2000)
        }
    }

    @Test("Invalid keys are not cached, and a bounded number of their addresses is stored")
    func bounded() async throws {
        try await TestDatabase.with { database in
            let (keys, address, store) = (OperatorKeys(), try Self.network, OperatorKeyStore(pool: database.pool))
            var refusals = 0
            for number in 0..<10_000 {
                do {
                    let digest = SHA256Digest.of("bad-\(number)")
                    #expect(try await keys.key(of: .key(digest), from: address, store, on: Shared.loop) == nil)
                } catch let problem as Problem {
                    #expect(problem.status == .tooManyRequests)
                    refusals += 1
                }
            }
            #expect(refusals > 9000)
            #expect(keys.count == 1)
        }
    }

    private static var network: SocketAddress.Network {
        get throws { try #require(SocketAddress("203.0.113.7")).network }
    }
}
