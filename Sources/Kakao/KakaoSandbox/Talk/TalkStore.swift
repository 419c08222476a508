import KakaoAPI
import Locking

/// KakaoTalk, as far as it concerns the app: who is whose friend, how many messages were sent, and which.
final class TalkStore: Sendable {
    /// A friend of a user.
    struct Friendship: Sendable {
        let userID: Int64
        var isFavorite = false
        /// Whether the user has hidden the friend, so that the friend is not listed.
        var isHidden = false
        /// The time in Unix milliseconds since which the other is a friend; 0 for a long time ago.
        var since: Int64 = 0
    }

    /// A receiver of a message.
    struct Receiver {
        let userID: Int64
        let uuid: String
        /// Kakao's error for a message from a friend; `nil` if the user can receive it.
        let refusal: KakaoRefusal?
    }

    /// The number of friendships after which no more can be set.
    static let maximumFriendships = 2_000_000
    /// The age from which a friendship counts for messages: Kakao caches the relation.
    private static let cacheMilliseconds: Int64 = 120_000

    fileprivate struct State {
        var settings: TalkSettings
        var friends: [Int64: [Int64: Friendship]] = [:]
        var friendshipCount = 0
        var usage = MessageUsage()
        var log: RecentLog<TalkMessage>
        var totals = TalkTotals()
    }

    let uuids: FriendUUIDs
    private let initialSettings: TalkSettings
    private let ledger: Ledger
    private let state: Locked<State>

    /// - Parameter ledger: It has Kakao's clock.
    init(_ settings: KakaoSandboxSettings, ledger: Ledger) {
        uuids = FriendUUIDs(appID: settings.appID)
        initialSettings = settings.talk
        self.ledger = ledger
        state = Locked(State(settings: settings.talk, log: RecentLog(capacity: settings.maximumMessages)))
    }

    /// The time by Kakao's clock, in Unix milliseconds.
    var now: Int64 { ledger.now }

    // MARK: Friends

    /// Replaces the friends of some users.
    ///
    /// - Returns: The number of all friendships, or `nil`, with nothing changed, if there would be more than
    ///   ``maximumFriendships``.
    func setFriends(_ friends: [Int64: [Friendship]]) -> Int? {
        state.withLock { state in
            var count = state.friendshipCount
            var new: [Int64: [Int64: Friendship]] = [:]
            for (userID, list) in friends {
                let byID = Dictionary(list.map { ($0.userID, $0) }) { _, last in last }
                count += byID.count - (state.friends[userID]?.count ?? 0)
                new[userID] = byID
            }
            guard count <= Self.maximumFriendships else { return nil }
            state.friends.merge(new) { _, new in new }
            state.friendshipCount = count
            return count
        }
    }

    /// Ends all friendships.
    func removeFriends() {
        state.withLock { state in
            state.friends = [:]
            state.friendshipCount = 0
        }
    }

    /// Returns the friends of a user, in no order.
    func friends(of userID: Int64) -> [Friendship] {
        state.withLock { $0.friends[userID].map { Array($0.values) } ?? [] }
    }

    // MARK: The app

    /// The app as KakaoTalk treats it now.
    var settings: TalkSettings { state.withLock { $0.settings } }

    /// Changes how KakaoTalk treats the app, and returns the result. If `change` throws, nothing is changed.
    func update<Failure: Error>(
        _ change: (inout TalkSettings) throws(Failure) -> Void
    ) throws(Failure) -> TalkSettings {
        try state.withLock { state throws(Failure) in
            var settings = state.settings
            try change(&settings)
            state.settings = settings
            return settings
        }
    }

    /// Restores the app's initial settings, and resets all quotas.
    func reset() {
        state.withLock { state in
            state.settings = initialSettings
            state.usage = MessageUsage()
        }
    }

    // MARK: Messages

    /// Sends a message to friends, and delivers it to each receiver that can be reached.
    ///
    /// - Returns: The refusals of the receivers whom the message did not reach, by their index.
    func send(
        _ content: MessageContent,
        by call: String,
        from sender: Int64,
        to receivers: [Receiver]
    ) -> [Int: KakaoRefusal] {
        let now = now
        return state.withLock { state in
            state.usage.advance(to: now)
            let friends = state.friends[sender] ?? [:]
            var refusals: [Int: KakaoRefusal] = [:]
            for (index, receiver) in receivers.enumerated() {
                let isFriend = friends[receiver.userID].map { now - $0.since >= Self.cacheMilliseconds } ?? false
                let refusal =
                    isFriend
                    ? receiver.refusal ?? state.usage.refusal(from: sender, to: receiver.userID, state.settings)
                    : .error(.notFriend, "the receiver is not a friend of the sender.")
                if let refusal {
                    refusals[index] = refusal
                    state.totals.failed[refusal.code ?? 0, default: 0] += 1
                    continue
                }
                state.usage.count(from: sender, to: receiver.userID)
                state.deliver(content, by: call, from: sender, to: receiver.userID, receiver.uuid, now)
            }
            return refusals
        }
    }

    /// Sends a message to the user's own chatroom.
    ///
    /// - Throws: The error of a quota that is used up.
    func sendMemo(_ content: MessageContent, by call: String, to userID: Int64) throws(KakaoRefusal) {
        let now = now
        try state.withLock { state throws(KakaoRefusal) in
            state.usage.advance(to: now)
            let isMessage = state.settings.countsMemosAsMessages
            let refusal =
                isMessage
                ? state.usage.refusal(from: userID, to: userID, state.settings)
                : state.usage.refusal(ofApp: state.settings)
            if let refusal {
                state.totals.failed[refusal.code ?? 0, default: 0] += 1
                throw refusal
            }
            if isMessage { state.usage.count(from: userID, to: userID) } else { state.usage.countApp() }
            state.deliver(content, by: call, from: userID, to: userID, uuids.uuid(of: userID), now)
        }
    }

    // MARK: The record

    /// Returns the oldest messages after a sequence number, from and to some user or all users, at most `limit`.
    func messages(from sender: Int64?, to receiver: Int64?, after: Int, limit: Int) -> [TalkMessage] {
        state.withLock { state in
            state.log.page(after: after, limit: limit) { message in
                (sender == nil || message.senderID == sender) && (receiver == nil || message.receiverID == receiver)
            }
        }
    }

    /// The counts of the messages since the record began.
    var totals: TalkTotals {
        state.withLock { state in
            var totals = state.totals
            totals.kept = state.log.entries.count
            return totals
        }
    }

    /// Returns the contents that one user received from another more than once, among the messages that are kept.
    ///
    /// It compares all of them, which takes some 100 ms for the usual maximum. Do not call it on an event loop.
    func repeated(limit: Int) -> [RepeatedMessage] {
        struct Key: Hashable {
            let senderID: Int64
            let receiverID: Int64
            let content: String
        }
        let messages = state.withLock { $0.log.entries }
        var times: [Key: Int] = [:]
        var repeated: [Key] = []
        for message in messages {
            let key = Key(senderID: message.senderID, receiverID: message.receiverID, content: message.content)
            let count = times[key, default: 0] + 1
            times[key] = count
            if count == 2 { repeated.append(key) }
        }
        return repeated.prefix(limit).map { key in
            RepeatedMessage(
                senderID: key.senderID,
                receiverID: key.receiverID,
                content: key.content,
                times: times[key] ?? 0
            )
        }
    }

    /// Clears the record and its counts. The quotas are not reset.
    func deleteMessages() {
        state.withLock { state in
            state.log.removeAll()
            state.totals = TalkTotals()
        }
    }
}

extension TalkStore.State {
    fileprivate mutating func deliver(
        _ content: MessageContent,
        by call: String,
        from sender: Int64,
        to receiver: Int64,
        _ uuid: String,
        _ now: Int64
    ) {
        totals.delivered[call, default: 0] += 1
        log.append(
            TalkMessage(
                sequence: log.nextSequence,
                deliveredAt: now,
                senderID: sender,
                receiverID: receiver,
                uuid: uuid,
                call: call,
                content: content.text
            )
        )
    }
}
