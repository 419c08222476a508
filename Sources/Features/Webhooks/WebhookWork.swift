import EventLoop
import FoundationEssentials
import Logging
import Postgres
import Runtime

/// Webhooks as the work of a queue: claims them, makes the requests, and stores their results.
struct WebhookWork: QueueWork {
    typealias Schedule = WebhookSchedule

    let webhooks: WebhookStore
    let sender: WebhookSender
    let endpoints: WebhookEndpoints
    let data: [WebhookData]
    let intervals: WebhookIntervals
    let notices: WebhookNotices
    let outcomes: LoopCounts<WebhookOutcome>.Own
    let dropped: LoopCounts<DropCause>.Own
    let logger: Logger

    func drainNotices() -> WebhookSchedule.Notices { notices.drain() }

    func claim(_ order: [WebhookSchedule.Room], under lease: UUID) async throws -> ClaimedWebhooks {
        let rows = try await webhooks.claim(order, under: lease, probe: intervals.request + intervals.probeMargin)
        let readAt = EventLoop.milliseconds()
        let bodies = try await data(of: rows.compactMap(\.event))
        var claimed = ClaimedWebhooks()
        for row in rows {
            claimed.isLeaseValid = row.isLeaseValid
            if claimed.endpoints.last?.name != row.endpoint.name { claimed.endpoints.append(row.endpoint) }
            guard let event = row.event else { continue }
            claimed.claims.append(
                WebhookClaim(
                    event: event.id,
                    claims: event.claims,
                    endpoint: row.endpoint.name,
                    attempts: event.attempts,
                    isProbe: row.endpoint.status == .failing,
                    readAt: readAt,
                    message: bodies[event.id].map { event.message(data: $0) }
                )
            )
        }
        return claimed
    }

    /// Returns the data of claimed webhooks by their ids. Those whose object is gone have none.
    private func data(of events: [ClaimWebhooks.Event]) async throws -> [UUID: [UInt8]] {
        var all: [UUID: [UInt8]] = [:]
        for data in data {
            let events = events.filter { event in data.types.contains { $0.rawValue == event.type } }
            guard !events.isEmpty else { continue }
            all.merge(try await data.data(of: events.map(\.id), webhooks.pool)) { first, _ in first }
        }
        return all
    }

    func perform(
        _ claim: WebhookClaim,
        startingBefore latestStart: UInt64
    ) async -> [QueueResult<WebhookClaim, WebhookResult>] {
        [QueueResult(claim, await send(claim, startingBefore: latestStart))]
    }

    private func send(_ claim: WebhookClaim, startingBefore latestStart: UInt64) async -> WebhookResult {
        guard let message = claim.message else { return .objectGone }
        // What was read longer ago may have been deleted with the data of its user.
        let end = min(latestStart, claim.readAt + intervals.freshness.wholeMilliseconds)
        guard EventLoop.milliseconds() < end, let endpoint = endpoints[claim.endpoint] else { return .notSent }
        let attempt = await sender.send(message, to: endpoint, startingBefore: end)
        outcomes.add(to: attempt.outcome)
        return .attempted(attempt)
    }

    func open(under lease: UUID) async throws -> [WebhookClaim] { try await webhooks.open(under: lease) }

    func isGrouped(_ result: QueueResult<WebhookClaim, WebhookResult>) -> Bool { true }

    func record(_ result: QueueResult<WebhookClaim, WebhookResult>) async throws { try await recordGroup([result]) }

    func recordGroup(_ results: [QueueResult<WebhookClaim, WebhookResult>]) async throws {
        try await webhooks.record(results)
    }

    func recorded(_ result: QueueResult<WebhookClaim, WebhookResult>) {
        if result.claim.next == .dropped { dropped.add(to: .objectGone) }
    }

    /// A webhook may be delivered twice, so that nothing has to be stored again.
    func restore(_ known: Void, _ report: LostCommits.Report) async throws {}

    /// Stores the state of an endpoint. Returns it; nothing if no server has the endpoint.
    func perform(_ chore: WebhookSchedule.Chore) async throws -> [StoredEndpoint] {
        let changed = try await webhooks.store(chore.change, of: chore.endpoint, intervals)
        guard let (endpoint, isNew) = changed else { return [] }
        if isNew { log(endpoint, chore.change) }
        return [endpoint]
    }

    private func log(_ endpoint: StoredEndpoint, _ change: EndpointChange) {
        let metadata: Logger.Metadata = ["endpoint": "\(endpoint.name)", "error": "\(change.error ?? "")"]
        switch endpoint.status {
        case .delivering:
            logger.notice("Webhook endpoint accepts webhooks again", metadata: ["endpoint": "\(endpoint.name)"])
        case .failing: logger.warning("Webhook endpoint does not accept webhooks", metadata: metadata)
        case .gone: logger.warning("Webhook endpoint is gone", metadata: metadata)
        case .removed: break
        }
    }
}

/// Why a webhook is not delivered any more.
enum DropCause: String, CaseIterable, Sendable {
    case endpointRemoved = "endpoint_removed"
    case objectGone = "object_gone"
}
