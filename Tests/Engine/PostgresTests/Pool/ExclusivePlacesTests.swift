import EventLoop
import Locking
import TestSupport
import Testing

@testable import Postgres

@Suite struct ExclusivePlacesTests {
    /// A pool that records what it is asked.
    private final class Member: Sendable {
        let calls = Locked<[String]>([])

        func join(_ places: ExclusivePlaces) {
            let calls = calls
            places.add(
                ObjectIdentifier(self),
                ExclusivePlaces.Member(
                    closeIdle: { calls.withLock { $0.append("close") } },
                    placeGranted: { calls.withLock { $0.append("granted") } }
                )
            )
        }

        var taken: [String] {
            calls.withLock { calls in
                defer { calls = [] }
                return calls
            }
        }
    }

    @Test("Places go to the pools that wait, in order, and idle connections of others are closed for them")
    func order() {
        let places = ExclusivePlaces(1)
        let members = (0..<3).map { _ in Member() }
        for member in members { member.join(places) }
        let ids = members.map { ObjectIdentifier($0) }
        #expect(places.acquire(ids[0], at: 0))
        #expect(!places.acquire(ids[1], at: 0))
        #expect(members.map(\.taken) == [["close"], [], ["close"]])
        #expect(!places.acquire(ids[2], at: 1))
        #expect(members.map(\.taken) == [["close"], ["close"], []])
        places.release()
        #expect(members.map(\.taken) == [[], ["granted"], []])
        places.release()
        #expect(members.map(\.taken) == [[], [], ["granted"]])
        places.release()
        #expect(places.acquire(ids[0], at: 2))
    }

    @Test("A pool gives up a connection that it does not need at once, and one that it needs after 50 ms")
    func claims() {
        let places = ExclusivePlaces(1)
        let members = (0..<2).map { _ in Member() }
        for member in members { member.join(places) }
        #expect(places.acquire(ObjectIdentifier(members[0]), at: 0))
        #expect(!places.isClaimed(isNeeded: false, at: 0))
        #expect(!places.acquire(ObjectIdentifier(members[1]), at: 100))
        #expect(places.isClaimed(isNeeded: false, at: 100))
        #expect(!places.isClaimed(isNeeded: true, at: 149))
        #expect(places.isClaimed(isNeeded: true, at: 150))
        // A pool that was shut down waits no longer.
        places.remove(ObjectIdentifier(members[1]))
        #expect(!places.isClaimed(isNeeded: false, at: 200))
        places.release()
        #expect(places.acquire(ObjectIdentifier(members[0]), at: 200))
    }

    @Test("The pools of a server run more transactions than they have places for, and never open more connections")
    func shared() async throws {
        try await TestDatabase.withPool { admin, database in
            let name = "shared places \(database.lock)"
            var settings = database.settings
            settings.applicationName = name
            settings.waitTimeout = .seconds(600)
            let places = ExclusivePlaces(2)
            let pools = try (0..<4).map { number in
                PostgresPool(
                    settings: settings,
                    loop: try TestDatabase.loop(number),
                    places: places,
                    logger: quietLogger
                )
            }
            // The present number of transactions, and the most so far.
            let running = Locked((present: 0, most: 0))
            try await withThrowingTaskGroup(of: Void.self) { group in
                for pool in pools {
                    for _ in 0..<25 {
                        group.addTask {
                            try await pool.withTransaction { transaction in
                                running.withLock { $0 = ($0.present + 1, max($0.most, $0.present + 1)) }
                                defer { running.withLock { $0.present -= 1 } }
                                try await transaction.query("SELECT 1")
                            }
                        }
                    }
                }
                try await group.waitForAll()
            }
            #expect((1...2).contains(running.withLock { $0.most }))
            for pool in pools { await pool.shutdown() }
            try await eventually("all connections are closed") {
                try await admin.value(
                    Int64.self,
                    "SELECT count(*) FROM pg_stat_activity WHERE application_name = $1",
                    [.text(name)]
                ) == 0
            }
        }
    }

    @Test("A connection that no transaction uses is closed after a while, and the next transaction opens another one")
    func idle() async throws {
        try await TestDatabase.withPool {
            $0.exclusiveIdleTime = .milliseconds(50)
        } _: { pool, _ in
            func backend() async throws -> Int32 {
                try await pool.withTransaction { transaction in
                    try #require(try await transaction.query("SELECT pg_backend_pid()").first).decode(Int32.self)
                }
            }
            let first = try await backend()
            try await eventually("the connection is closed") {
                try await pool.value(
                    Int64.self,
                    "SELECT count(*) FROM pg_stat_activity WHERE pid = $1",
                    [.int32(first)]
                ) == 0
            }
            #expect(try await backend() != first)
        }
    }
}
