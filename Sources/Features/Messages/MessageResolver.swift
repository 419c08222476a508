import Endpoints
import EventLoop
import FoundationEssentials
import Logging
import Postgres
import Runtime

/// Finds the uuids of receivers whom a request named by user id, in the friends lists of the senders.
struct MessageResolver: Sendable {
    /// The maximum number of friends lists that are read at a time.
    private static let maximumLists = 4
    /// The delay after PostgreSQL could not be reached.
    private static let retryDelay = Duration.seconds(1)

    let pool: PostgresPool
    let friends: FriendsLists
    let notices: MessageNotices
    /// The receivers by final state.
    let receivers: LoopCounts<ReceiverState>.Own
    let logger: Logger

    /// Returns the worker that resolves receivers when ``MessageNotices/resolving`` wakes it.
    func worker() -> BackgroundWorker {
        BackgroundWorker(
            "resolve-receivers",
            on: pool.loop,
            every: .seconds(3600),
            signal: notices.resolving,
            retryAfter: Self.retryDelay,
            pace: nil,
            failure: "Receivers not resolved",
            logger: logger
        ) { _ in
            try await resolveNext() > 0 ? .zero : nil
        }
    }

    /// Resolves the receivers of some messages. Returns the number of messages.
    private func resolveNext() async throws -> Int {
        let messages: [UnresolvedMessage] = try await pool.write(ClaimResolutions(limit: Self.maximumLists))
        await withTaskGroup { group in
            for message in messages {
                group.addTask(executorPreference: pool.loop) { await resolve(message) }
            }
        }
        return messages.count
    }

    private func resolve(_ message: UnresolvedMessage) async {
        do {
            let failed = try await friends.resolve(message)
            if failed > 0 {
                receivers.add(failed, to: .failed)
                _ = try await pool.write(FinishMessages(ids: [message.id])) as [UUID]
                notices.webhooks.changed()
            }
            notices.changed()
        } catch {
            logger.debug("Friends not read", metadata: ["message": "\(message.id.lowercased)", "error": "\(error)"])
        }
    }
}
