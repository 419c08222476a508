package import Endpoints
import EventLoop
import FoundationEssentials
import Identity
import KakaoAPI
package import Postgres
package import Runtime
package import ServiceKit
package import ServiceLifecycle

/// The company's KakaoTalk channels: who has added or blocked them, and the customer files in which the company keeps its customers at
/// Kakao.
package struct ChannelFeature: Feature {
    package typealias Configuration = ChannelSettings

    package static let collections: [any RouteCollection.Type] = [
        ChannelRoutes.self, CustomerFileRoutes.self, CustomerUploadRoutes.self,
    ]

    /// The days for which an upload is shown after its end. Its users are gone by then.
    private static let uploadDays = 90
    /// The days for which an upload waits for Kakao: long enough for an operator to find out why, and a limit for personal data.
    private static let waitingDays = 14

    private let server: ServerContext
    private let settings: ChannelSettings
    private let notices: CustomerNotices

    package init(_ server: ServerContext, _ settings: ChannelSettings) {
        self.server = server
        self.settings = settings
        notices = CustomerNotices(pool: server.background.pool)
        server.lifecycle.register { loop in
            ChannelUserObserver(hasKakaoUserIDs: server.identity.hasKakaoUserIDs, pool: loop.pool)
        }
    }

    package func addRoutes(to routes: inout Routes, _ loop: LoopServices) {
        routes.add(ChannelRoutes(pool: loop.pool))
        routes.add(CustomerFileRoutes(kakao: loop.kakao(.requests), audit: loop.audit))
        routes.add(
            CustomerUploadRoutes(
                store: CustomerUploadStore(pool: loop.pool),
                uploads: server.userUploads,
                notices: notices
            )
        )
    }

    package func makeServices() -> [any Service] {
        let loop = server.background
        let store = CustomerUploadStore(pool: loop.pool)
        let runner = QueueRunner(
            CustomerWork(
                store: store,
                kakao: loop.kakao(.background),
                notices: notices,
                logger: server.logger
            ),
            CustomerSchedule(),
            store: store,
            signal: notices.signal,
            commits: server.lostCommits,
            stateDirectory: nil,
            intervals: settings.intervals,
            progress: WorkProgress(),
            logger: server.logger
        )
        let delivery = CustomerDelivery(runner: runner, store: store, notices: notices)
        return [delivery, notices.servers.worker(logger: server.logger)]
    }

    package var channels: [String] { [notices.servers.channel] }

    package func receive(_ event: PostgresListener.Event) { notices.servers.receive(event) }

    package var retentions: [Retention] {
        [
            Retention(
                "remove-old-channel-relations",
                .delete { DeleteOldChannelRelations(retentionDays: settings.retentionDays, limit: $0) },
                .delete { DeleteOldCustomerUploads(retentionDays: Self.uploadDays, limit: $0) },
                .delete(10) { ExpireCustomerUploads(days: Self.waitingDays, limit: $0) }
            )
        ]
    }
}

/// The sending of uploads, from the first one on: without any, a server does not even renew a lease.
private struct CustomerDelivery: Service {
    let runner: QueueRunner<CustomerWork>
    let store: CustomerUploadStore
    let notices: CustomerNotices

    func run() async {
        while !Task.isShuttingDownGracefully, !Task.isCancelled {
            let hasParts = try? await store.pool.read(FindCustomerParts()).first
            if hasParts == true { return await runner.run() }
            // If PostgreSQL cannot say, it is asked again soon.
            let wait: Duration = hasParts == nil ? .seconds(5) : .seconds(3600)
            await cancelWhenGracefulShutdown { await notices.signal.wait(atMost: wait) }
        }
    }
}

/// Deletes the relations of users who leave the app or are erased: they no longer agree that the app knows. Deletes erased ones from
/// uploads as well.
private struct ChannelUserObserver: UserObserver {
    /// Whether user ids are Kakao's. Relations have Kakao's ids, which may be those of other users otherwise.
    let hasKakaoUserIDs: Bool
    let pool: PostgresPool

    func apply(_ events: [UserEvent], in transaction: PostgresTransaction) async throws -> (@Sendable () -> Void)? {
        let left = events.filter { $0.kind == .left }
        if !left.isEmpty { _ = try await transaction.query(DeleteDepartedRelations(departures: left)) as [Int64] }
        return nil
    }

    func deleteData(ofUser userID: Int64, erasedAt: Date?) async throws -> Bool {
        if hasKakaoUserIDs {
            try await pool.write(DeleteChannelsOfUser(userID: userID, storedUntil: erasedAt))
            try await pool.write(EraseUserFromUploads(userID: userID))
        }
        return true
    }
}
