import KakaoSandbox
import Postgres
import ServiceTesting
import TestSupport

/// What became of each receiver, from the database and from the sandbox's record of messages.
///
/// The criteria:
///
/// - Every message was stored once, although its request was repeated, and has ended; no receiver is open.
/// - **Nobody is reached twice.** A receiver who is `sent` was reached exactly once, and one who is `failed` or
///   `uncertain` at most once. With `at_least_once`, a receiver who was reached twice is marked with `may_repeat`, and
///   nobody is uncertain.
/// - A receiver who is `failed` was not reached, and has a reason that the faults explain. With `may_repeat` it may have
///   been reached before.
/// - **Quotas hold.** Those of each sender count the receivers who were, or may have been, reached, once for each time
///   that this may have happened.
struct MessageHistory {
    private struct Receiver: Sendable {
        let sender: Int64
        let uuid: String
        let state: String
        let reason: String?
        let mayRepeat: Bool
    }

    private(set) var violations: [String] = []
    private var counts: [String: Int] = [:]
    private let plan: MessageCrashPlan
    private let totals: TalkTotals
    private var reachedTwice = 0

    init(_ plan: MessageCrashPlan, _ database: TestDatabase, _ kakao: KakaoSandbox) async throws {
        self.plan = plan
        totals = kakao.talkTotals
        var reached: [String: Int] = [:]
        var reachedBySender: [Int64: Int] = [:]
        for message in kakao.talkMessages(limit: 1_000_000) {
            reached[message.uuid, default: 0] += 1
            reachedBySender[message.senderID, default: 0] += 1
        }
        let messages = try await database.count("messages WHERE state = 'done'")
        if messages != plan.senders { violations.append("\(messages) messages are done") }
        let receivers = try await Self.receivers(database)
        if receivers.count != plan.receivers { violations.append("\(receivers.count) receivers are stored") }
        for receiver in receivers {
            judge(receiver, reached[receiver.uuid, default: 0])
        }
        // The day may have ended meanwhile.
        let quotas = "SELECT sender, sum(used)::int FROM message_quotas WHERE quota = 'sender' GROUP BY sender"
        for row in try await database.pool.read(quotas) {
            let (sender, used) = try row.decode(Int64.self, Int32.self)
            let least = reachedBySender[sender, default: 0]
            let own = receivers.filter { $0.sender == sender }
            let uncertain = own.count { $0.state == "uncertain" }
            if used < least
                || (!MessageCrashPlan.isAtLeastOnce(sender) && used > own.count { $0.state == "sent" } + uncertain)
            {
                violations.append("The quota of sender \(sender) counts \(used) messages, \(least) have arrived")
            }
        }
    }

    private static func receivers(_ database: TestDatabase) async throws -> [Receiver] {
        try await database.pool.read(
            """
            SELECT sender, uuid, receiver.state, reason, may_repeat
            FROM message_receivers AS receiver
            JOIN messages AS message ON message.id = message_id
            """
        )
        .map { row in
            let (sender, uuid, state, reason, mayRepeat) = try row.decode(
                Int64.self,
                String?.self,
                String.self,
                String?.self,
                Bool.self
            )
            return Receiver(sender: sender, uuid: uuid ?? "", state: state, reason: reason, mayRepeat: mayRepeat)
        }
    }

    private mutating func judge(_ receiver: Receiver, _ times: Int) {
        counts[[receiver.state, receiver.reason].compactMap(\.self).joined(separator: ": "), default: 0] += 1
        func violation(_ what: String) {
            violations.append("A receiver who is \(what): \(receiver), reached \(times) times")
        }
        let isAtLeastOnce = MessageCrashPlan.isAtLeastOnce(receiver.sender)
        if times > 1 {
            reachedTwice += 1
            if !receiver.mayRepeat { violation("not marked was reached twice") }
        }
        if receiver.mayRepeat, !isAtLeastOnce { violation("sent at most once may be repeated") }
        switch receiver.state {
        case "sent":
            if times == 0 { violation("sent was not reached") }
        case "failed":
            if times > 0, !receiver.mayRepeat { violation("failed was reached") }
            if !["refuses_messages", "not_a_friend", "unavailable"].contains(receiver.reason) {
                violation("failed has another reason than the faults")
            }
        case "uncertain":
            if isAtLeastOnce { violation("uncertain was to be reached at least once") }
            if !["no_response", "server_stopped"].contains(receiver.reason) {
                violation("uncertain has another reason than the faults")
            }
        default: violation("open is of a message that has ended")
        }
    }

    /// The outcome as a table.
    var table: String {
        let rows: [(String, any CustomStringConvertible)] = [
            ("senders, receivers", "\(plan.senders), \(plan.receivers)"),
            (
                "kills, stops, restarts of PostgreSQL",
                [MessageCrashPlan.Event.kill, .stop, .restartPostgres]
                    .map { event in String(plan.events.count { $0 == event }) }
                    .joined(separator: ", ")
            ),
            ("messages that arrived", totals.delivered.values.reduce(0, +)),
            (
                "refused receivers by Kakao's code",
                totals.failed.sorted { $0.key > $1.key }.map { "\($0.key): \($0.value)" }.joined(separator: ", ")
            ),
        ]
        let outcomes = counts.sorted { $0.key < $1.key }.map { ("receivers \($0.key)", "\($0.value)") }
        let ends: [(String, any CustomStringConvertible)] = [
            ("receivers reached twice, all with at_least_once and may_repeat", reachedTwice),
            ("violations", violations.count),
        ]
        return "\n| messages through faults | |\n| --- | --- |\n"
            + (rows + outcomes + ends).map { "| \($0.0) | \($0.1) |\n" }.joined()
    }
}
