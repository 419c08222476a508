import Accounts
import EventLoop
import FoundationEssentials
import HTTPServer
import KakaoAPI
import Locking
import Postgres
import Runtime

/// The friends lists of senders, in which Kakao names friends by uuid. A list is read when a message needs it, and cached for
/// ten minutes.
struct FriendsLists: Sendable {
    /// The number of friends up to which a list is read.
    static let maximumFriends = 10_000
    private static let lifetime = Duration.seconds(600)
    /// The number of lists that are cached: of 10,000 friends each, they take about 200 MB.
    private static let maximumLists = 100
    private static let retryDelay = Duration.seconds(10)

    /// The friends of a user.
    struct Friends: Sendable {
        /// The uuids by user ids.
        var uuids: [Int64: String] = [:]
        /// The uuids of all friends, also of those whose user ids Kakao does not tell.
        var all: Set<String> = []
    }

    private struct CachedList: Sendable {
        let friends: Friends
        let readAt: MonotonicTime
    }

    let pool: PostgresPool
    let kakao: KakaoClient
    let tokens: any UserTokenSource
    private let lists = Locked(LRUCache<Int64, CachedList>(limit: maximumLists))

    /// Stores the uuids of the receivers of a message that are friends of its sender. The others fail. Returns their
    /// number.
    ///
    /// - Throws: ``PostgresError``: the message is resolved again in a minute.
    func resolve(_ message: UnresolvedMessage) async throws -> Int {
        let users = try await pool.read(ReadUnresolvedUsers(messageID: message.id))
        do {
            let friends = try await friends(of: message.sender) { list in
                users.allSatisfy { list.uuids[$0.id] != nil }
            }
            let uuids = users.map { (position: $0.position, uuid: friends.uuids[$0.id]) }
            return try await pool.write(ResolveReceivers(messageID: message.id, uuids: uuids)).count { !$0 }
        } catch let refusal as Refusal {
            return try await pool.write(FailReceivers(messageID: message.id, refusal: refusal))
        } catch let unavailable as Unavailable {
            let _: Int = try await pool.write(PostponeResolution(messageID: message.id, delay: unavailable.delay))
            return 0
        }
    }

    /// Kakao cannot be asked now.
    struct Unavailable: Error {
        /// The time after which Kakao can be asked again.
        var delay = FriendsLists.retryDelay
    }

    /// Returns the friends of a user.
    ///
    /// - Parameter suffices: Whether a cached list has all friends that are needed. If not, the list is read again: a
    ///   friendship may be new.
    /// - Throws: ``Refusal`` if Kakao does not show them, for a reason that does not pass by itself; ``Unavailable``.
    func friends(of sender: Int64, suffices: (Friends) -> Bool) async throws -> Friends {
        if let cached = lists.withLock({ $0.value(sender) }), MonotonicTime.now - cached.readAt < Self.lifetime,
            suffices(cached.friends)
        {
            return cached.friends
        }
        do {
            let friends = try await tokens.withToken(of: sender) { try await read($0) }
            lists.withLock { $0.set(CachedList(friends: friends, readAt: MonotonicTime.now), for: sender) }
            return friends
        } catch let error as KakaoError {
            if let refusal = Refusal(error) { throw refusal }
            throw error.disposition == .wait ? Unavailable(delay: error.callQuotaDelay) : Unavailable()
        } catch let problem as Problem {
            let refusal = Refusal(problem)
            guard refusal.reason != .unavailable else { throw Unavailable() }
            throw refusal
        }
    }

    /// Reads all friends of the user to whom a token belongs, page by page.
    private func read(_ token: String) async throws(KakaoError) -> Friends {
        var friends = Friends()
        var next: RetrieveFriends? = RetrieveFriends(offset: 0, limit: RetrieveFriends.maximumLimit)
        while let call = next, friends.all.count < Self.maximumFriends {
            let known = friends.all.count
            let page = try await kakao.call(call, as: .userToken(token))
            for friend in page.friends {
                friends.all.insert(friend.uuid)
                if let id = friend.userID { friends.uuids[id] = friend.uuid }
            }
            // Pages without new friends might never end.
            next = friends.all.count > known ? page.afterURL.flatMap(RetrieveFriends.init(pageAt:)) : nil
        }
        return friends
    }
}
