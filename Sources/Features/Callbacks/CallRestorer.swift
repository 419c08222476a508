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
    /// - Returns: The number of calls that were missing.
    func restore() async throws -> Int {
        var missing = 0
        for name in await recent.fileNames() {
            let calls = await recent.records(ofFile: name).compactMap { try? ReceivedCall(record: $0.payload) }
            for start in stride(from: 0, to: calls.count, by: Self.batchSize) {
                missing += try await restore(Array(calls[start..<min(start + Self.batchSize, calls.count)]))
            }
        }
        return missing
    }

    /// Stores calls again, without what names users who were erased since.
    private func restore(_ calls: [ReceivedCall]) async throws -> Int {
        let first = calls.map(\.receivedAt).min() ?? Date()
        let erased = try await pool.read(ListErasedUsers(since: first))
        let erasures = Dictionary(erased.map { ($0.userID, $0.erasedAt) }) { max($0, $1) }
        let kept = erasures.isEmpty ? calls : calls.compactMap { call in call.without(erasures, hasKakaoUserIDs) }
        let outcomes = try await store.store(kept, on: loop, logger)
        guard let userIDArgument else { return outcomes.count { $0 == .new } }
        var again: Set<Int64> = []
        for case (.linkCallback(let callback), .new) in zip(kept, outcomes) {
            again.formUnion(erasures.keys.filter { callback.mayName($0) })
        }
        for userID in again.sorted() {
            try await RemoveUserFromLinkCallbacks.erase(userID, fromArgument: userIDArgument, pool)
        }
        return outcomes.count { $0 == .new }
    }
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
}

extension LinkCallback {
    /// Whether the callback contains the id of a user.
    fileprivate func mayName(_ userID: Int64) -> Bool {
        String(decoding: args, as: UTF8.self).contains(String(userID)) || raw?.contains(String(userID)) == true
    }
}
