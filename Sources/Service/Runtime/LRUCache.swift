/// A bounded LRU cache.
///
/// It approximates LRU with two dictionaries. An accessed value moves to the younger one. When that is full, the older
/// one is dropped and the younger takes its place. Each operation therefore takes the same short time, whatever a
/// caller fills the cache with.
package struct LRUCache<Key: Hashable & Sendable, Value: Sendable>: Sendable {
    private let half: Int
    private var younger: [Key: Value] = [:]
    private var older: [Key: Value] = [:]

    /// - Parameter limit: The maximum number of values, 2 or more.
    package init(limit: Int) {
        half = max(1, limit / 2)
    }

    /// The number of values.
    package var count: Int { younger.count + older.count }

    /// Returns the value of a key, and marks it as recently used.
    package mutating func value(_ key: Key) -> Value? {
        if let value = younger[key] { return value }
        guard let value = older.removeValue(forKey: key) else { return nil }
        insert(value, for: key)
        return value
    }

    package mutating func set(_ value: Value, for key: Key) {
        older[key] = nil
        insert(value, for: key)
    }

    package mutating func remove(_ key: Key) {
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
