import Endpoints
import EventLoop
import FoundationEssentials
import Logging
import Postgres
import Runtime
import ServiceLifecycle

/// Looks up the uuids of receivers that a request named by user id. Reads the friends lists of the senders, a few at a time.
actor MessageResolver: Service {
    /// The maximum number of friends lists that are read at a time.
    private static let maximumLists = 4
    /// The delay after PostgreSQL could not be reached.
    private static let retryDelay = Duration.seconds(1)

    nonisolated let unownedExecutor: UnownedSerialExecutor
    private let loop: EventLoop
    private let pool: PostgresPool
    private let friends: FriendsLists
    private let notices: MessageNotices
    private let receivers: LoopCounts<ReceiverState>.Own
    private let logger: Logger

    private var reading = 0
    private var isStopping = false

    /// - Parameter receivers: The receivers by final state.
    init(
        pool: PostgresPool,
        friends: FriendsLists,
        notices: MessageNotices,
        receivers: LoopCounts<ReceiverState>.Own,
        logger: Logger
    ) {
        loop = pool.loop
        unownedExecutor = loop.asUnownedSerialExecutor()
        self.pool = pool
        self.friends = friends
        self.notices = notices
        self.receivers = receivers
        self.logger = logger
    }

    /// Resolves receivers when ``MessageNotices/resolving`` wakes it, until the server shuts down and the lists in progress are read.
    func run() async {
        await withGracefulShutdownHandler {
            await withDiscardingTaskGroup { group in
                while !isStopping, !Task.isCancelled {
                    let (messages, wait) = await claim()
                    for message in messages {
                        group.addTask(executorPreference: loop) { await self.resolve(message) }
                    }
                    await notices.resolving.wait(atMost: wait)
                }
            }
        } onGracefulShutdown: {
            self.loop.execute { self.assumeIsolated { $0.stop() } }
        }
    }

    private func stop() {
        isStopping = true
        notices.resolving.send()
    }

    /// Claims messages to resolve. Returns them, and the time after which to look again.
    private func claim() async -> (messages: [UnresolvedMessage], wait: Duration) {
        let limit = Self.maximumLists - reading
        // The end of a list leads here again.
        guard limit > 0 else { return ([], .seconds(3600)) }
        do {
            let messages: [UnresolvedMessage] = try await pool.write(ClaimResolutions(limit: limit))
            reading += messages.count
            return (messages, .seconds(3600))
        } catch {
            logger.debug("Receivers not resolved", metadata: ["error": "\(String(reflecting: error))"])
            return ([], Self.retryDelay)
        }
    }

    private func resolve(_ message: UnresolvedMessage) async {
        do {
            let failed = try await friends.resolve(message)
            if failed > 0 { receivers.add(failed, to: .failed) }
            notices.resolved(message.id)
        } catch {
            logger.debug("Friends not read", metadata: ["message": "\(message.id.lowercased)", "error": "\(error)"])
        }
        reading -= 1
        notices.resolving.send()
    }
}
