import FoundationEssentials
import KakaoAPI
import Locking
import Postgres
import Runtime

/// The sender's access to pushes and batches in PostgreSQL.
///
/// The statements that change them are in `Transitions`; `BatchStore+Work.swift` makes the batches the work of a queue.
final class BatchStore: Sendable {
    let pool: PostgresPool
    /// The slot of `push_counts` in which this server counts. Servers mostly use different slots, and so do not wait
    /// for each other.
    let slot: Int32
    let results: StatementCoalescer<RecordBatchResults>
    let settlements: StatementCoalescer<SettleBatches>
    let settings: Locked<PushSettings>

    init(pool: PostgresPool, _ settings: Locked<PushSettings> = Locked(PushSettings())) {
        self.settings = settings
        let slot = Int32.random(in: 0..<64)
        self.pool = pool
        self.slot = slot
        results = StatementCoalescer(pool: pool) { RecordBatchResults(items: $0, slot: slot) }
        settlements = StatementCoalescer(pool: pool) { SettleBatches(items: $0, slot: slot) }
    }

    /// The properties of a push that the sender needs.
    struct Active: Sendable {
        let id: UUID
        let name: String?
        let message: PushMessage
        let bypass: Bool
        let delivery: Delivery
        let usersPerSecond: Int32?
    }

    /// The pushes that are being sent.
    struct ActivePushes: Sendable {
        /// The pushes, with the time until each expires by the database's clock; `nil` if it does not expire.
        var timeLeft: [UUID: Duration?] = [:]
        /// The time until the hours for advertising end, for each push that is advertising.
        var hoursLeft: [UUID: Duration] = [:]
        /// The pushes that were not known.
        var new: [(push: Active, message: EncodedPushMessage)] = []
        /// The pushes of which more batches are being prepared.
        var unprepared: Set<UUID> = []
        /// The time until the next scheduled push; `nil` if it is not within seconds.
        var nextStart: Duration?
    }

    /// Returns the pushes that have batches to send, now or within seconds.
    ///
    /// - Parameters:
    ///   - known: Pushes whose messages are not read again.
    ///   - encode: Encodes the message of a new push.
    func active(
        besides known: [UUID],
        encode: (Active) -> EncodedPushMessage
    ) async throws -> ActivePushes {
        var active = ActivePushes()
        for push in try await pool.read(ListActivePushes(known: known, hours: settings.hours)) {
            if let startsIn = push.startsIn, startsIn > 0, push.expiresIn.map({ $0 > 0 }) ?? true {
                active.nextStart = min(active.nextStart ?? .seconds(10), .seconds(startsIn))
                continue
            }
            active.timeLeft[push.id] = .some(push.expiresIn.map { .seconds($0) })
            active.hoursLeft[push.id] = push.hoursEndIn.map { .seconds($0) }
            if !push.isPrepared { active.unprepared.insert(push.id) }
            if let new = push.new { active.new.append((new, encode(new))) }
        }
        return active
    }
}

// MARK: Statements

/// Lists the pushes that have batches to send, now or within 10 s, and those that have expired, the oldest first. There are none while
/// the sender is stopped.
struct ListActivePushes: PostgresStatement {
    static let sql: SQL = """
        SELECT id, NOT id = ANY ($1), name, CASE WHEN NOT id = ANY ($1) THEN message ELSE '' END, message_version, bypass,
            delivery, users_per_second, EXTRACT(epoch FROM expires_at - now())::float8,
            prepared_at IS NOT NULL AND retry_position IS NULL,
            EXTRACT(epoch FROM GREATEST(CASE WHEN state = 'scheduled' THEN send_at END, begins) - now())::float8,
            EXTRACT(epoch FROM ends - now())::float8
        FROM pushes
        CROSS JOIN LATERAL (
            SELECT CASE WHEN kind = 'advertising' AND NOT to_testers THEN advertising_begins($2) END AS begins,
                CASE WHEN kind = 'advertising' AND NOT to_testers THEN advertising_ends($2) END AS ends
        ) AS hours
        WHERE state IN ('scheduled', 'preparing', 'sending')
            AND (state <> 'scheduled' OR send_at <= now() + interval '10 s')
            AND (
                begins IS NULL
                OR begins <= now() + interval '10 s'
                -- It has expired within the hours, such as at their end.
                OR expires_at <= now() AND advertising_ends($2, expires_at - interval '1 microsecond') IS NOT NULL
            )
            AND EXISTS (SELECT 1 FROM sender WHERE stopped_at IS NULL)
        ORDER BY id
        LIMIT 5000
        """

    /// Pushes whose messages are not read.
    let known: [UUID]
    let hours: PostgresValue

    var parameters: [PostgresValue] { [.uuids(known), hours] }

    struct Row: Sendable {
        let id: UUID
        /// `nil` for a known push.
        let new: BatchStore.Active?
        /// Seconds.
        let expiresIn: Double?
        let isPrepared: Bool
        /// Seconds; `nil` for a push that may be sent now.
        let startsIn: Double?
        /// Seconds; `nil` for a push that is not advertising.
        let hoursEndIn: Double?
    }

    static func decode(_ row: PostgresRow) throws -> Row {
        try row.decode { column in
            let id = try column.next(UUID.self)
            let isNew = try column.next(Bool.self)
            let push = try BatchStore.Active(
                id: id,
                name: column.next(),
                message: PushMessage(text: column.next(), version: PushVersion(rawValue: column.next()) ?? .v1),
                bypass: column.next(),
                delivery: Delivery(rawValue: column.next()) ?? .atLeastOnce,
                usersPerSecond: column.next()
            )
            return try Row(
                id: id,
                new: isNew ? push : nil,
                expiresIn: column.next(),
                isPrepared: column.next(),
                startsIn: column.next(),
                hoursEndIn: column.next()
            )
        }
    }
}
