import EventLoop
import Locking
import Postgres
import Runtime

/// The links of shares that were used lately, and ids that no share had. Links never change, so that a server with them needs no
/// database to redirect.
final class ShareCache: Sendable {
    /// The number of shares, each of a few hundred bytes.
    private static let maximumShares = 20_000
    /// The number of ids without a share.
    private static let maximumUnknown = 20_000
    /// How long an id without a share costs no query. An id is only given to anyone once its share is stored; the time is
    /// short for a share that an operator restores from a backup.
    private static let unknownTime = Duration.seconds(60)

    private struct State {
        var shares = LRUCache<ShareID, [String]>(limit: maximumShares)
        /// When an id without a share is looked up again.
        var unknown = LRUCache<ShareID, MonotonicTime>(limit: maximumUnknown)
    }

    private enum Entry {
        case links([String])
        case unknown
    }

    private let state = Locked(State())

    /// Returns the links of a share; `nil` if there is no such share.
    ///
    /// - Parameter admit: Called before a query. The query is not made if this throws.
    func links(
        of id: ShareID,
        _ store: ShareStore,
        at now: MonotonicTime = .now,
        beforeQuery admit: () throws -> Void = {}
    ) async throws -> [String]? {
        switch entry(of: id, at: now) {
        case .links(let links)?: return links
        case .unknown?: return nil
        case nil: try admit()
        }
        let links = try await store.pool.read(FindShareLinks(id: id)).first
        state.withLock { state in
            if let links {
                state.shares.set(links, for: id)
            } else {
                state.unknown.set(now + Self.unknownTime, for: id)
            }
        }
        return links
    }

    private func entry(of id: ShareID, at now: MonotonicTime) -> Entry? {
        state.withLock { state in
            if let links = state.shares.value(id) { return .links(links) }
            guard let end = state.unknown.value(id), end > now else { return nil }
            return .unknown
        }
    }
}
