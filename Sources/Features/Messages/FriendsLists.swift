import Accounts
import EventLoop
import FoundationEssentials
import HTTPServer
import KakaoAPI
import Locking
import Postgres
import Runtime
import ServiceKit

/// The friends lists of senders, in which Kakao names friends by uuid. A list is read when a message needs it, and kept for
/// ten minutes.
struct FriendsLists: Sendable {
    /// The number of friends up to which a list is read.
    static let maximumFriends = 10_000
    private static let lifetime = Duration.seconds(600)
    /// The number of lists that are kept: of 10,000 friends each, they take about 200 MB.
    private static let maximumLists = 100
    private static let retryDelay = Duration.seconds(10)

    /// The friends of a user.
    struct Friends: Sendable {
        /// The uuids by user ids.
        var uuids: [Int64: String] = [:]
        /// The uuids of all friends, also of those whose user ids Kakao does not tell.
        var all: Set<String> = []
    }

    private struct KeptList: Sendable {
        let friends: Friends
        let readAt: MonotonicTime
    }

    let pool: PostgresPool
    let kakao: KakaoClient
    let tokens: any UserTokenSource
    private let lists = Locked(LRUCache<Int64, KeptList>(limit: maximumLists))

    init(pool: PostgresPool, kakao: KakaoClient, tokens: any UserTokenSource) {
        self.pool = pool
        self.kakao = kakao
        self.tokens = tokens
    }

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
        } catch let refusal as Refused {
            return try await pool.write(FailReceivers(messageID: message.id, refusal: refusal.refusal))
        } catch let unavailable as Unavailable {
            let _: Int = try await pool.write(PostponeResolution(messageID: message.id, delay: unavailable.delay))
            return 0
        }
    }

    /// Kakao does not show the friends of a user, for a reason that does not pass by itself.
    struct Refused: Error {
        let refusal: Refusal
    }

    /// Kakao cannot be asked now.
    struct Unavailable: Error {
        /// The time after which Kakao can be asked again.
        var delay = FriendsLists.retryDelay
    }

    /// Returns the friends of a user.
    ///
    /// - Parameter suffices: Whether a kept list has all friends that are needed. If not, the list is read again: a
    ///   friendship may be new.
    /// - Throws: ``Refused``; ``Unavailable``.
    func friends(of sender: Int64, suffices: (Friends) -> Bool) async throws -> Friends {
        if let kept = lists.withLock({ $0.value(sender) }), MonotonicTime.now - kept.readAt < Self.lifetime,
            suffices(kept.friends)
        {
            return kept.friends
        }
        do {
            let friends = try await read(sender)
            lists.withLock { $0.set(KeptList(friends: friends, readAt: MonotonicTime.now), for: sender) }
            return friends
        } catch let error as KakaoError {
            if let refusal = Refusal(error) { throw Refused(refusal: refusal) }
            throw error.disposition == .wait ? Unavailable(delay: error.callQuotaDelay) : Unavailable()
        } catch let problem as Problem {
            let refusal = Refusal(problem)
            guard refusal.reason != .unavailable else { throw Unavailable() }
            throw Refused(refusal: refusal)
        }
    }

    private func read(_ sender: Int64) async throws -> Friends {
        var token = try await tokens.accessToken(of: sender, replacing: nil)
        var hasReplaced = false
        var friends = Friends()
        var next: RetrieveFriends? = RetrieveFriends(offset: 0, limit: RetrieveFriends.maximumLimit)
        while let call = next, friends.all.count < Self.maximumFriends {
            let known = friends.all.count
            do throws(KakaoError) {
                let page = try await kakao.call(call, as: .userToken(token))
                for friend in page.friends {
                    friends.all.insert(friend.uuid)
                    if let id = friend.userID { friends.uuids[id] = friend.uuid }
                }
                // Pages without new friends might never end.
                next = friends.all.count > known ? page.afterURL.flatMap(RetrieveFriends.init(pageAt:)) : nil
            } catch {
                guard error.disposition == .logIn, !hasReplaced else { throw error }
                hasReplaced = true
                token = try await tokens.accessToken(of: sender, replacing: token)
            }
        }
        return friends
    }
}
