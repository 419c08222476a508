package import JSON

/// A counter of how often pushes with a marker reached each user, which reveals a push that was sent twice.
///
/// A user is reached when an accepted send names it, with or without a device, because that is all that Kakao's caller
/// controls.
struct ReachCounter {
    /// The sends of one marker.
    private struct Reach {
        /// The number of tables. Growing a single large table would block all callers while it is copied; shards grow
        /// one at a time.
        static let shardCount = 64

        var summary: ReachSummary
        var shards = [[Int64: UInt32]](repeating: [:], count: shardCount)

        static func shard(of userID: Int64) -> Int {
            // The upper 6 bits of Fibonacci hashing spread both consecutive ids and multiples.
            Int(truncatingIfNeeded: (UInt64(bitPattern: userID) &* 0x9E37_79B9_7F4A_7C15) >> 58)
        }
    }

    private static let maximumMarkers = 1000

    private let maximumUsers: Int
    private var indices: [String: Int] = [:]
    private var reaches: [Reach] = []
    private var users = 0
    /// The number of reached users that were not counted because a limit was reached.
    private(set) var uncounted = 0

    init(maximumUsers: Int) {
        self.maximumUsers = maximumUsers
    }

    mutating func count(_ userIDs: [Int64], marker: String) {
        guard let index = index(of: marker) else {
            uncounted += userIDs.count
            return
        }
        reaches[index].summary.sends += 1
        for userID in userIDs {
            guard users < maximumUsers else {
                uncounted += 1
                continue
            }
            let times = reaches[index].shards[Reach.shard(of: userID)].increment(userID)
            reaches[index].summary.times += 1
            if times == 1 {
                reaches[index].summary.users += 1
                users += 1
            } else if times == 2 {
                reaches[index].summary.moreThanOnce += 1
            }
        }
    }

    private mutating func index(of marker: String) -> Int? {
        if let index = indices[marker] { return index }
        guard reaches.count < Self.maximumMarkers else { return nil }
        reaches.append(Reach(summary: ReachSummary(marker: marker)))
        indices[marker] = reaches.count - 1
        return reaches.count - 1
    }

    /// The counts of each marker, in the order of first use.
    var summaries: [ReachSummary] {
        reaches.map(\.summary)
    }

    func summary(of marker: String) -> ReachSummary {
        indices[marker].map { reaches[$0].summary } ?? ReachSummary(marker: marker)
    }

    func times(_ userID: Int64, marker: String) -> Int {
        guard let index = indices[marker] else { return 0 }
        return Int(reaches[index].shards[Reach.shard(of: userID)][userID] ?? 0)
    }

    /// Returns users after `after` that were reached at least `minimumTimes` times, by ascending id. Scans all users of
    /// the marker.
    func page(of marker: String, minimumTimes: Int, after: Int64, limit: Int) -> [(userID: Int64, times: Int)] {
        guard let index = indices[marker] else { return [] }
        var found: [(userID: Int64, times: Int)] = []
        for shard in reaches[index].shards {
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

/// The counts of the sends of one marker.
package struct ReachSummary: Sendable, Equatable {
    /// The marker; empty for the sends without one.
    package let marker: String
    package fileprivate(set) var sends = 0
    /// The number of distinct users.
    package fileprivate(set) var users = 0
    /// The number of times that users were reached.
    package fileprivate(set) var times = 0
    /// The number of distinct users that were reached at least twice.
    package fileprivate(set) var moreThanOnce = 0
}

extension ReachSummary: JSONWritable {
    package func write(to writer: inout JSONWriter) {
        writer.object { writeMembers(to: &$0) }
    }

    func writeMembers(to json: inout JSONWriter.Members) {
        json.member("marker", marker)
        json.member("sends", sends)
        json.member("users", users)
        json.member("times", times)
        json.member("more_than_once", moreThanOnce)
    }
}

extension [Int64: UInt32] {
    /// Adds one and returns the sum.
    fileprivate mutating func increment(_ key: Int64) -> UInt32 {
        func increment(_ count: inout UInt32) -> UInt32 {
            count = count == .max ? .max : count + 1
            return count
        }
        // Updated in place, so that the key is looked up only once.
        return increment(&self[key, default: 0])
    }
}
