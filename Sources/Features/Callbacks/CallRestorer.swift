import Endpoints
import EventLoop
import FoundationEssentials
import JSON
import Journal
import Logging
import Postgres
import Runtime
import ServiceKit
import Sharing

/// Compares the calls from Kakao that were stored in the last minutes with the database, which may have lost them, and stores again
/// what is missing.
final class CallRestorer: Sendable {
    /// How often old files are deleted.
    private static let interval = Duration.seconds(30)
    /// The number of calls that are stored together.
    private static let batchSize = 250

    private let recent: RecentRecords
    private let store: ReceivedCallStore
    private let pool: PostgresPool
    /// The setting `callbacks.user_id_argument`.
    private let userIDArgument: String?
    /// Whether user ids are Kakao's, and those of events therefore those of the users here.
    private let hasKakaoUserIDs: Bool
    private let loop: EventLoop
    private let logger: Logger
    private let commits: LostCommits

    init(
        recent: RecentRecords,
        store: ReceivedCallStore,
        userIDArgument: String?,
        hasKakaoUserIDs: Bool,
        background: LoopServices,
        commits: LostCommits,
        logger: Logger
    ) {
        self.recent = recent
        self.store = store
        self.userIDArgument = userIDArgument
        self.hasKakaoUserIDs = hasKakaoUserIDs
        pool = background.pool
        loop = background.loop
        self.commits = commits
        self.logger = logger
    }

    /// Returns the worker that deletes old files. While PostgreSQL is away, and until its new run is compared, it deletes none.
    func worker() -> BackgroundWorker {
        BackgroundWorker(
            "delete-recent-calls",
            on: loop,
            every: Self.interval,
            retryAfter: Self.interval,
            pace: nil,
            failure: "Files of recent calls not deleted",
            logger: logger
        ) { _ in
            if try await self.commits.areChecked() { await self.recent.removeOld() }
            return nil
        }
    }

    /// Stores the calls of the files again that the database does not have.
    ///
    /// - Parameter report: Records the number of link callbacks and events that are missing. Whether the count of a token's failures is
    ///   as it was cannot be known.
    func restore(_ report: LostCommits.Report) async throws {
        var missing = 0
        try await forEachBatch { calls in
            missing += Int(try await pool.read(CountMissingCalls(calls: calls)).first ?? 0)
        }
        try await report(missing, [])
        try await forEachBatch { calls in try await restore(calls) }
    }

    /// Passes the calls of all files to `body`, without events of users who were erased since.
    private func forEachBatch(_ body: ([ReceivedCall]) async throws -> Void) async throws {
        let erasures = try await erasures()
        for name in await recent.fileNames() {
            let calls = await recent.records(ofFile: name).compactMap { try? ReceivedCall(record: $0.payload) }
            for start in stride(from: 0, to: calls.count, by: Self.batchSize) {
                let some = calls[start..<min(start + Self.batchSize, calls.count)]
                try await body(some.compactMap { $0.without(erasures, hasKakaoUserIDs) })
            }
        }
    }

    /// When users were erased lately, by the clock of this machine, by which calls are received.
    private func erasures() async throws -> [Int64: Date] {
        let erased = try await pool.read(ListErasedUsers(maximumAge: RecentFacts.maximumAge))
        let now = Date()
        return Dictionary(erased.map { ($0.userID, now - $0.age.inSeconds) }) { max($0, $1) }
    }

    /// Stores calls again, without what names users who were erased. Those are read afterwards: an erasure that is not read then finds the
    /// calls stored.
    private func restore(_ calls: [ReceivedCall]) async throws {
        let outcomes = try await store.store(calls, on: loop, logger)
        let new = zip(calls, outcomes).filter { $0.1 == .new }.map(\.0)
        guard !new.isEmpty else { return }
        for (userID, erasedAt) in try await erasures().sorted(by: { $0.key < $1.key }) {
            let events = new.filter { $0.without([userID: erasedAt], hasKakaoUserIDs)?.eventCount != $0.eventCount }
            if !events.isEmpty { try await pool.write(DeleteEvents(userID: userID)) }
            guard let userIDArgument, new.contains(where: { $0.isCallback(naming: userID) }) else { continue }
            try await RemoveUserFromLinkCallbacks.erase(userID, fromArgument: userIDArgument, pool)
        }
    }
}

/// Counts the given link callbacks and events that are not stored.
struct CountMissingCalls: PostgresStatement {
    static let sql: SQL = """
        SELECT (
                SELECT count(*)
                FROM unnest($1::text[]) AS given (key)
                WHERE NOT EXISTS (SELECT 1 FROM link_callbacks WHERE link_callbacks.key = given.key)
            ) + (
                SELECT count(*)
                FROM unnest($2::text[]) AS given (key)
                WHERE NOT EXISTS (SELECT 1 FROM events WHERE events.key = given.key)
            )
        """

    let calls: [ReceivedCall]

    var parameters: [PostgresValue] {
        var (callbacks, events): ([String], [String]) = ([], [])
        for call in calls {
            switch call {
            case .linkCallback(let callback): callbacks.append(callback.key)
            case .events(let some): events += some.map(\.key)
            case .tokenFailure: break
            }
        }
        return [.texts(callbacks), .texts(events)]
    }

    static func decode(_ row: PostgresRow) throws -> Int64 { try row.decode(Int64.self) }
}

extension ReceivedCall {
    /// Returns the call without events of users who were erased after it was received; `nil` if nothing is left.
    fileprivate func without(_ erasures: [Int64: Date], _ hasKakaoUserIDs: Bool) -> ReceivedCall? {
        guard case .events(let events) = self, hasKakaoUserIDs else { return self }
        let others = events.filter { event in
            let named = erasures.filter { $0.value >= event.receivedAt }.keys
            return !named.contains { $0 == event.userID || event.raw?.contains(String($0)) == true }
        }
        return others.isEmpty ? nil : .events(others)
    }

    /// The number of events; `nil` for another call.
    fileprivate var eventCount: Int? {
        guard case .events(let events) = self else { return nil }
        return events.count
    }

    /// Whether the call is a link callback that contains the id of a user.
    fileprivate func isCallback(naming userID: Int64) -> Bool {
        guard case .linkCallback(let callback) = self else { return false }
        return String(decoding: callback.args, as: UTF8.self).contains(String(userID))
            || callback.raw?.contains(String(userID)) == true
    }
}
