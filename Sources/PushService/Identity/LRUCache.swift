/// A dictionary that holds a bounded number of values, and forgets those that were not asked for lately.
///
/// It is two dictionaries: what is asked for moves to the younger one; when that is full the older one is dropped, and the younger
/// takes its place. So each step takes the same short time, whatever a caller may fill it with.
struct LRUCache<Key: Hashable & Sendable, Value: Sendable>: Sendable {
    private let half: Int
    private var younger: [Key: Value] = [:]
    private var older: [Key: Value] = [:]

    /// - Parameter limit: How many values it holds at most, 2 or more.
    init(limit: Int) {
        half = max(1, limit / 2)
    }

    /// How many values it holds.
    var count: Int { younger.count + older.count }

    /// The value of a key, which is kept for longer because it was asked for.
    mutating func value(_ key: Key) -> Value? {
        if let value = younger[key] { return value }
        guard let value = older.removeValue(forKey: key) else { return nil }
        insert(value, for: key)
        return value
    }

    mutating func set(_ value: Value, for key: Key) {
        older[key] = nil
        insert(value, for: key)
    }

    mutating func remove(_ key: Key) {
        younger[key] = nil
        older[key] = nil
    }

    private mutating func insert(_ value: Value, for key: Key) {
        if younger.count >= half, younger[key] == nil {
            older = younger
            younger = [:]
        }
        younger[key] = value
    }
}
