/// The users of a step of a push's preparation to whom nothing is sent, in ascending order. Each is in one of the lists.
struct SkippedUsers: Sendable {
    var excluded: [Int64] = []
    var withoutConsent: [Int64] = []
    /// Those who would be sent to if they had a device that the message addresses.
    var noDevice: [Int64] = []

    /// The lists that are not empty, as `push_skipped` has them.
    var rows: [(cause: UnreachedCause, ids: UserIDBytes)] {
        [
            (UnreachedCause.excluded, excluded), (.withoutConsent, withoutConsent), (.noDevice, noDevice),
        ].filter { !$0.1.isEmpty }.map { ($0.0, UserIDBytes($0.1)) }
    }
}

// Lists of users, which ascend.
extension [Int64] {
    /// Removes the elements of another list. Both ascend.
    mutating func subtract(_ other: [Int64]) {
        guard !other.isEmpty else { return }
        var place = 0
        removeAll { element in
            while place < other.count, other[place] < element { place += 1 }
            return place < other.count && other[place] == element
        }
    }

    /// Returns the elements of this list and of another one that has none of them. Both ascend.
    func merged(with other: [Int64]) -> [Int64] {
        guard !other.isEmpty else { return self }
        var (merged, place): ([Int64], Int) = ([], 0)
        merged.reserveCapacity(count + other.count)
        for element in self {
            while place < other.count, other[place] < element {
                merged.append(other[place])
                place += 1
            }
            merged.append(element)
        }
        return merged + other[place...]
    }
}
