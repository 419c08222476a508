/// The newest entries of a record, which are numbered from 1 without gaps.
struct RecentLog<Entry> {
    private let capacity: Int
    /// A ring buffer: the entry with sequence number n is at (n - 1) % capacity.
    private(set) var entries: [Entry] = []
    private var count = 0

    init(capacity: Int) {
        self.capacity = max(1, capacity)
    }

    /// The sequence number of the next entry.
    var nextSequence: Int { count + 1 }

    mutating func append(_ entry: Entry) {
        let index = count % capacity
        if index < entries.count {
            entries[index] = entry
        } else {
            entries.append(entry)
        }
        count += 1
    }

    /// Returns the oldest entries after a sequence number that match, at most `limit`.
    func page(after: Int, limit: Int, where matches: (Entry) -> Bool) -> [Entry] {
        var found: [Entry] = []
        let oldest = count - entries.count + 1
        var sequence = max(oldest, min(after, count) + 1)
        while sequence <= count, found.count < limit {
            let entry = entries[(sequence - 1) % capacity]
            if matches(entry) { found.append(entry) }
            sequence += 1
        }
        return found
    }

    /// Removes all entries and restarts at sequence number 1.
    mutating func removeAll() {
        self = RecentLog(capacity: capacity)
    }
}
