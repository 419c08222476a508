/// How often each user was reached by pushes of one marker, so that a push sent twice can be told from one sent once.
///
/// A user is reached when an accepted send names it, with or without a device: that is what the caller of Kakao answers for.
struct ReachCounter {
    /// The sends of one marker.
    fileprivate struct Reach {
        /// Growing one large table would hold every caller up for as long as it takes to copy it: these grow one at a time.
        static let shardCount = 64

        var sends = 0
        var users = 0
        var times = 0
        var moreThanOnce = 0
        var shards = [[Int64: UInt32]](repeating: [:], count: shardCount)

        static func shard(of userID: Int64) -> Int {
            // Fibonacci hashing, the upper 6 bits: neighbours and multiples alike are spread.
            Int(truncatingIfNeeded: (UInt64(bitPattern: userID) &* 0x9E37_79B9_7F4A_7C15) >> 58)
        }
    }

    private static let maximumMarkers = 1000

    private let maximumUsers: Int
    private var indices: [String: Int] = [:]
    private var reaches: [(marker: String, reach: Reach)] = []
    private var users = 0
    /// Times that were not counted for want of room.
    private(set) var uncounted = 0

    init(maximumUsers: Int) {
        self.maximumUsers = maximumUsers
    }

    mutating func count(_ userIDs: [Int64], marker: String) {
        guard let index = index(of: marker) else {
            uncounted += userIDs.count
            return
        }
        reaches[index].reach.sends += 1
        for userID in userIDs {
            guard users < maximumUsers else {
                uncounted += 1
                continue
            }
            let times = reaches[index].reach.shards[Reach.shard(of: userID)].increment(userID)
            reaches[index].reach.times += 1
            if times == 1 {
                reaches[index].reach.users += 1
                users += 1
            } else if times == 2 {
                reaches[index].reach.moreThanOnce += 1
            }
        }
    }

    private mutating func index(of marker: String) -> Int? {
        if let index = indices[marker] { return index }
        guard reaches.count < Self.maximumMarkers else { return nil }
        reaches.append((marker, Reach()))
        indices[marker] = reaches.count - 1
        return reaches.count - 1
    }

    /// What is known of each marker, in the order in which they first came.
    var summaries: [ReachSummary] {
        reaches.map { ReachSummary($0.marker, $0.reach) }
    }

    func summary(of marker: String) -> ReachSummary {
        guard let index = indices[marker] else { return ReachSummary(marker, Reach()) }
        return ReachSummary(marker, reaches[index].reach)
    }

    func times(_ userID: Int64, marker: String) -> Int {
        guard let index = indices[marker] else { return 0 }
        return Int(reaches[index].reach.shards[Reach.shard(of: userID)][userID] ?? 0)
    }

    /// Users after `after` that were reached at least `minimumTimes` times, by ascending id. Looks at every user of the marker.
    func page(of marker: String, minimumTimes: Int, after: Int64, limit: Int) -> [(userID: Int64, times: Int)] {
        guard let index = indices[marker] else { return [] }
        var found: [(userID: Int64, times: Int)] = []
        for shard in reaches[index].reach.shards {
            for (userID, times) in shard where Int(times) >= minimumTimes && userID > after {
                found.append((userID, Int(times)))
            }
        }
        found.sort { $0.userID < $1.userID }
        return Array(found.prefix(limit))
    }

    mutating func removeAll() {
        self = ReachCounter(maximumUsers: maximumUsers)
    }
}

/// What is known of the sends of one marker.
package struct ReachSummary: Sendable, Equatable {
    /// Empty for the sends without one.
    package let marker: String
    package let sends: Int
    /// Different users.
    package let users: Int
    /// Users, as often as they were reached.
    package let times: Int
    /// Different users that were reached twice or more.
    package let moreThanOnce: Int

    fileprivate init(_ marker: String, _ reach: ReachCounter.Reach) {
        self.marker = marker
        sends = reach.sends
        users = reach.users
        times = reach.times
        moreThanOnce = reach.moreThanOnce
    }
}

extension [Int64: UInt32] {
    /// Adds one and returns the sum.
    fileprivate mutating func increment(_ key: Int64) -> UInt32 {
        func increment(_ count: inout UInt32) -> UInt32 {
            count = count == .max ? .max : count + 1
            return count
        }
        // In place: the key is looked up once.
        return increment(&self[key, default: 0])
    }
}
