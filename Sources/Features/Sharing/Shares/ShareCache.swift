import Locking
import Postgres
import Runtime

/// The links of shares that were used lately. Links never change, so that a server with them needs no database to
/// redirect.
final class ShareCache: Sendable {
    /// The number of shares, each of a few hundred bytes.
    private static let maximumShares = 20_000

    private let shares = Locked(LRUCache<ShareID, [String]>(limit: maximumShares))

    /// Returns the links of a share; `nil` if there is no such share.
    func links(of id: ShareID, _ store: ShareStore) async throws -> [String]? {
        if let links = shares.withLock({ $0.value(id) }) { return links }
        guard let links = try await store.pool.read(FindShareLinks(id: id)).first else { return nil }
        shares.withLock { $0.set(links, for: id) }
        return links
    }
}
