import Endpoints
import EventLoop
import FoundationEssentials
import HTTPClient
import JSON
import KakaoAPI
import Locking
import Logging
import Postgres
import Runtime
import Schemas

/// The parts of uploads as the work of a queue: claims one, calls Kakao, and stores what became of it.
struct CustomerWork: QueueWork {
    typealias Schedule = CustomerSchedule

    /// The waits after failed attempts. An upload ends by a refusal of Kakao, by an operator, or after 14 days.
    private static let retries = RetryDelay(first: .seconds(1), longest: .seconds(60))

    let store: CustomerUploadStore
    let kakao: KakaoClient
    let notices: CustomerNotices
    let logger: Logger

    func drainNotices() -> Bool { notices.drain() }

    func perform(_ chore: Never) async throws {}

    func claim(_ order: Void, under lease: UUID) async throws -> ClaimedCustomerPart {
        try await store.pool.write(ClaimCustomerPart(lease: lease)).first
            ?? ClaimedCustomerPart(claims: [], isLeaseValid: false)
    }

    func open(under lease: UUID) async throws -> [CustomerPart] {
        try await store.pool.read(ListOpenCustomerParts(lease: lease))
    }

    func record(_ result: QueueResult<CustomerPart, CustomerPartResult>) async throws {
        try await store.record(result)
    }

    func restore(_ known: Void, _ report: LostCommits.Report) async throws {}

    func perform(
        _ part: CustomerPart,
        startingBefore latestStart: UInt64
    ) async -> [QueueResult<CustomerPart, CustomerPartResult>] {
        [QueueResult(part, await send(part, startingBefore: latestStart))]
    }

    private func send(_ part: CustomerPart, startingBefore latestStart: UInt64) async -> CustomerPartResult {
        guard let call = part.call else { return .notSent }
        guard let users = (try? JSONValue(parsing: call.users)).flatMap({ try? Customer.kind.array.read($0) }) else {
            return .refused("Part \(part.number) cannot be read.")
        }
        // All of them were erased.
        guard !users.isEmpty else { return .accepted(0) }
        do throws(KakaoError) {
            return .accepted(
                try await send(call, users, startingBefore: latestStart).successCount ?? Int64(users.count)
            )
        } catch {
            return result(of: error, part)
        }
    }

    private func send(
        _ call: CustomerPart.Call,
        _ users: [Customer],
        startingBefore latestStart: UInt64
    ) async throws(KakaoError) -> UpdateCustomers.Answer {
        let credential = kakao.settings.appCredential
        switch call.action {
        case .update:
            let update = UpdateCustomers(
                fileID: call.fileID,
                channelPublicID: call.channelPublicID,
                type: call.type,
                users: users
            )
            return try await kakao.call(update, as: credential, startingBefore: latestStart)
        case .delete:
            let deletion = DeleteCustomers(
                fileID: call.fileID,
                channelPublicID: call.channelPublicID,
                type: call.type,
                userIDs: users.map {
                    CustomerReference(id: $0.id, isObject: kakao.settings.sendsCustomerObjects)
                }
            )
            return try await kakao.call(deletion, as: credential, startingBefore: latestStart)
        }
    }

    private func result(of error: KakaoError, _ part: CustomerPart) -> CustomerPartResult {
        if case .unreachable(let cause) = error.kind, cause.code == .expired { return .notSent }
        switch error.disposition {
        case .retry, .unrecognized, .wait, .halt:
            let delay = Self.retries.after(Int(part.attempts) + 1, atLeast: error.retryAfter ?? .zero)
            return .retried(after: delay, reason: error.description)
        case .logIn, .consent, .invalid, .fail:
            logger.warning(
                "Customers refused by Kakao",
                metadata: ["upload": "\(part.uploadID.lowercased)", "part": "\(part.number)"]
            )
            return .refused(error.description)
        }
    }
}

/// The notifications of this server and of others that there are parts to send.
final class CustomerNotices: Sendable {
    /// Wakes the queue's runner.
    let signal: Signal
    let servers: ServerNotices
    private let hasChange = Locked(false)

    init(pool: PostgresPool) {
        let signal = Signal(loop: pool.loop)
        self.signal = signal
        servers = ServerNotices(channel: "kakao_push_customer_files", pool: pool) { [hasChange] in
            hasChange.withLock { $0 = true }
            signal.send()
        }
    }

    /// Returns whether there may be a part that is due.
    func drain() -> Bool {
        hasChange.withLock { hasChange in
            defer { hasChange = false }
            return hasChange
        }
    }
}
