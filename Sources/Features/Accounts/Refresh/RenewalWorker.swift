import EventLoop
import Logging
import Postgres
import Runtime

extension TokenRefresher {
    /// The number of accounts that are renewed at the same time.
    private static let renewalConcurrency = 4
    /// The time that the renewal of this many accounts takes at least: 8 a second, far below Kakao's limits, and enough
    /// for 20 million users whose tokens last for two months.
    private static let renewalTime = Duration.milliseconds(500)
    /// The number of expired accounts that one statement marks.
    private static let maximumExpired = 1000

    /// Returns the worker that renews refresh tokens before they expire, at a limited pace, and marks those that have
    /// expired.
    func renewer(pace: PollPace) -> BackgroundWorker {
        BackgroundWorker(
            "renew-accounts",
            on: loop,
            every: .seconds(60),
            pace: pace,
            failure: "Tokens not renewed",
            logger: logger
        ) { worker in
            while try await store.pool.write(ExpireAccounts(limit: Self.maximumExpired)) > 0, !worker.isStopping {
                webhooks.send()
            }
            let latestStart = latestStart
            let claims = try await store.pool.write(
                ClaimRenewals(
                    limit: Self.renewalConcurrency,
                    duration: intervals.lease,
                    keyIDs: vault.keyIDs,
                    appKeys: app.keys
                )
            )
            guard !claims.isEmpty else { return nil }
            let start = MonotonicTime.now
            await withTaskGroup(of: Void.self) { group in
                for claim in claims {
                    // A task of its own, since the response must be stored even if the server shuts down.
                    let refreshing = Task(executorPreference: loop) {
                        await refresh(claim, startingBefore: latestStart)
                    }
                    group.addTask { await refreshing.value }
                }
            }
            return max(.milliseconds(1), Self.renewalTime - (MonotonicTime.now - start))
        }
    }
}
