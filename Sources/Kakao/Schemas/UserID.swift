package import JSON

/// The reading of user ids, which every request of an app has.
package enum UserID {
    /// Returns an id, or `nil` for a value that is none.
    package static func read(_ value: JSONValue) -> Int64? {
        guard let id = value.decimal, id > 0 else { return nil }
        return id
    }

    /// Returns the ids in an array, or `nil` if one is invalid or if there are too few or too many.
    package static func read(_ value: JSONValue, count: ClosedRange<Int>) -> [Int64]? {
        guard let elements = value.array, count.contains(elements.count) else { return nil }
        var ids: [Int64] = []
        ids.reserveCapacity(elements.count)
        for element in elements {
            guard let id = read(element) else { return nil }
            ids.append(id)
        }
        return ids
    }
}
