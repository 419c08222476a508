import EventLoop
import Locking
import PrivatePostgres
import TestSupport
import Testing

@testable import Postgres

/// `LISTEN` on a connection that is reopened whenever it is lost.
@Suite(.timeLimit(.minutes(5))) struct ListenerTests {
    /// The events that a listener has reported, in order.
    private final class Record: Sendable {
        private let events = Locked<[PostgresListener.Event]>([])

        var all: [PostgresListener.Event] { events.withLock { $0 } }

        func append(_ event: PostgresListener.Event) {
            events.withLock { $0.append(event) }
        }

        func count(_ event: PostgresListener.Event) -> Int {
            all.count { $0 == event }
        }
    }

    /// Runs `body` with a listener whose backend can be found by its application name.
    private func withListener(
        _ channels: [String],
        _ body: (PostgresPool, TestDatabase, Record, PostgresListener) async throws -> Void
    ) async throws {
        try await TestDatabase.withPool { pool, database in
            var settings = database.settings
            settings.applicationName = name(database)
            let record = Record()
            let listener = PostgresListener(
                settings: settings,
                channels: channels.map { "\($0) \(database.lock)" },
                loop: database.loop,
                logger: quietLogger
            ) { record.append($0) }
            listener.start()
            do {
                try await eventually("the listener listens") { record.count(.listening) == 1 }
                try await body(pool, database, record, listener)
            } catch {
                await listener.shutdown()
                throw error
            }
            await listener.shutdown()
        }
    }

    private func name(_ database: TestDatabase) -> String { "listener \(database.lock)" }

    private func notify(
        _ pool: PostgresPool,
        _ database: TestDatabase,
        _ channel: String,
        _ payload: String
    )
        async throws
    {
        try await pool.write("SELECT pg_notify($1, $2)", [.text("\(channel) \(database.lock)"), .text(payload)])
    }

    private func notification(
        _ database: TestDatabase,
        _ channel: String,
        _ payload: String
    ) -> PostgresListener.Event {
        .notification(channel: "\(channel) \(database.lock)", payload: payload)
    }

    /// Returns the process number and the last query of the listener's backend, if it has one.
    private func activity(_ pool: PostgresPool, _ database: TestDatabase) async throws -> [(Int32, String)] {
        try await pool.read(
            "SELECT pid, query || ' ' || query_start::text FROM pg_stat_activity WHERE application_name = $1",
            [.text(name(database))]
        ).map { try $0.decode(Int32.self, String.self) }
    }

    @Test("Notifications arrive in order, with channel and payload, from each of the listener's channels and no other")
    func notifications() async throws {
        try await withListener(["one", #"The "second""#]) { pool, database, record, _ in
            try await notify(pool, database, "one", "a")
            try await notify(pool, database, "other", "b")
            try await notify(pool, database, #"The "second""#, "안녕 'quoted'")
            try await notify(pool, database, "one", "")
            let expected = [
                .listening, notification(database, "one", "a"),
                notification(database, #"The "second""#, "안녕 'quoted'"), notification(database, "one", ""),
            ]
            try await eventually("the notifications arrive: \(record.all)") { record.all.count >= expected.count }
            #expect(record.all == expected)
        }
    }

    @Test("A notification is reported when its transaction commits, and never if it rolls back")
    func transactions() async throws {
        struct ChangeOfMind: Error {}
        try await withListener(["c"]) { pool, database, record, _ in
            let statement = "SELECT pg_notify($1, $2)"
            let channel = PostgresValue.text("c \(database.lock)")
            try? await pool.withTransaction { transaction in
                try await transaction.query(statement, [channel, .text("rolled back")])
                throw ChangeOfMind()
            }
            try await pool.withTransaction { transaction in
                _ = try await transaction.query(statement, [channel, .text("committed")])
            }
            try await eventually("the notification arrives") { record.all.count == 2 }
            #expect(record.all == [.listening, notification(database, "c", "committed")])
        }
    }

    @Test("A listener whose backend is terminated listens again, and reports that, as notifications may be lost")
    func reconnection() async throws {
        try await withListener(["c"]) { pool, database, record, _ in
            for round in 1...3 {
                let backend = try #require(try await activity(pool, database).first?.0)
                try await pool.write("SELECT pg_terminate_backend($1)", [.int32(backend)])
                // May be sent while the listener is not connected.
                try await notify(pool, database, "c", "missed")
                try await eventually("the listener listens again") { record.count(.listening) == round + 1 }
                try await notify(pool, database, "c", "heard \(round)")
                try await eventually("the listener receives notifications") {
                    record.count(notification(database, "c", "heard \(round)")) == 1
                }
                #expect(record.all.last == notification(database, "c", "heard \(round)"))
            }
        }
    }

    @Test("A listener follows the other connections to another server, whose notifications it would miss")
    func moved() async throws {
        try await TestDatabase.slots.with {
            try await TestCluster.with { _, first in
                try await TestCluster.with { _, second in
                    let settings = try PostgresSettings(url: TestPair.url(first, second))
                    let record = Record()
                    let listener = PostgresListener(
                        settings: settings,
                        channels: ["c"],
                        loop: try TestDatabase.loop(),
                        logger: quietLogger
                    ) { record.append($0) }
                    listener.start()
                    try await eventually("the listener listens") { record.count(.listening) == 1 }
                    settings.addresses.withLock { $0.reached(settings.hosts[1]) }
                    try await eventually("the listener listens at the other server") { record.count(.listening) == 2 }
                    try await withPool(PostgresSettings(url: second)) { pool in
                        try await pool.write("NOTIFY c, 'here'")
                        try await eventually("the listener receives notifications") {
                            record.count(.notification(channel: "c", payload: "here")) == 1
                        }
                    }
                    await listener.shutdown()
                }
            }
        }
    }

    @Test("An idle listener runs no statements")
    func idle() async throws {
        try await withListener(["c"]) { pool, database, record, _ in
            let before = try await activity(pool, database).map(\.1)
            #expect(before.count == 1)
            try await notify(pool, database, "c", "a")
            try await eventually("the notification arrives") { record.all.count == 2 }
            #expect(try await activity(pool, database).map(\.1) == before)
        }
    }

    @Test("Shutdown closes the listener's connection, and no event is reported afterwards")
    func shutdown() async throws {
        try await withListener(["c"]) { pool, database, record, listener in
            await listener.shutdown()
            let told = record.all
            try await notify(pool, database, "c", "late")
            try await eventually("the listener's backend ends") { try await activity(pool, database).isEmpty }
            #expect(record.all == told)
            // A second shutdown has no effect, and a start afterwards does not reconnect.
            await listener.shutdown()
            listener.start()
            await listener.shutdown()
            #expect(try await activity(pool, database).isEmpty)
        }
    }

    @Test("A listener that cannot reach the server keeps retrying, and can be shut down meanwhile")
    func unreachable() async throws {
        let record = Record()
        let listener = PostgresListener(
            settings: try PostgresSettings(url: "postgresql://127.0.0.1:1/d"),
            channels: ["c"],
            loop: try TestDatabase.loop(),
            logger: quietLogger
        ) { record.append($0) }
        listener.start()
        try await Task.sleep(for: .milliseconds(200))
        await listener.shutdown()
        #expect(record.all.isEmpty)
    }
}
