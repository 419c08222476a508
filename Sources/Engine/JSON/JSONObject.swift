/// A JSON object: its members in the order of the text, each name once.
///
/// Names are equal if their bytes are equal (RFC 8259 §8.3). Swift's `String` would also treat a precomposed and a
/// decomposed "한" as equal, which other JSON parsers do not.
package struct JSONObject: Sendable {
    /// The number of members above which names are found by hash. Up to this number, comparing them all is faster.
    private static let indexedBeyond = 16

    /// The members in the order of the text.
    package private(set) var members: [(name: String, value: JSONValue)] = []
    /// The index of each name, if there are more than ``indexedBeyond`` members.
    private var positions: [Name: Int]?

    /// Creates an object without members.
    package init() {}

    /// Makes room for `count` members in all, so that they are added without copying.
    package mutating func reserveCapacity(_ count: Int) {
        members.reserveCapacity(count)
    }

    package var count: Int { members.count }

    package var isEmpty: Bool { members.isEmpty }

    /// The value of a member, or `nil` if there is no member of that name.
    ///
    /// Setting a value replaces it in place or appends a member. Setting `nil` removes the member.
    package subscript(name: String) -> JSONValue? {
        get {
            position(of: name).map { members[$0].value }
        }
        set {
            guard let newValue else {
                removeValue(forName: name)
                return
            }
            if let position = position(of: name) {
                members[position].value = newValue
            } else {
                appendNew(name, newValue)
            }
        }
    }

    /// Appends a member. Returns false and changes nothing if there is already a member of that name.
    package mutating func append(_ name: String, _ value: JSONValue) -> Bool {
        if positions != nil {
            // Names are hashed once: that takes most of the time of an object with thousands of members.
            if let position = positions?.updateValue(members.count, forKey: Name(text: name)) {
                positions?[Name(text: name)] = position
                return false
            }
            members.append((name, value))
            return true
        }
        guard position(of: name) == nil else { return false }
        appendNew(name, value)
        return true
    }

    /// Removes a member and returns its value, or returns `nil` if there is no member of that name.
    @discardableResult
    package mutating func removeValue(forName name: String) -> JSONValue? {
        guard let position = position(of: name) else { return nil }
        let value = members.remove(at: position).value
        reindex()
        return value
    }

    /// Renames a member in place.
    ///
    /// - Returns: False, with nothing changed, if there is no member `name` or another member is already named
    ///   `newName`.
    @discardableResult
    package mutating func rename(_ name: String, to newName: String) -> Bool {
        guard let position = position(of: name) else { return false }
        if let taken = self.position(of: newName) { return taken == position }
        members[position].name = newName
        reindex()
        return true
    }

    private func position(of name: String) -> Int? {
        if let positions { return positions[Name(text: name)] }
        for position in members.indices where Name(text: members[position].name) == Name(text: name) {
            return position
        }
        return nil
    }

    private mutating func appendNew(_ name: String, _ value: JSONValue) {
        members.append((name, value))
        if positions != nil {
            positions?[Name(text: name)] = members.count - 1
        } else if members.count > Self.indexedBeyond {
            reindex()
        }
    }

    private mutating func reindex() {
        guard members.count > Self.indexedBeyond else {
            positions = nil
            return
        }
        var positions: [Name: Int] = [:]
        positions.reserveCapacity(members.count * 2)
        for (position, member) in members.enumerated() { positions[Name(text: member.name)] = position }
        self.positions = positions
    }
}

extension JSONObject: ExpressibleByDictionaryLiteral {
    /// Creates an object with the members in the order given. If a name is repeated, the last value counts.
    package init(dictionaryLiteral elements: (String, JSONValue)...) {
        for (name, value) in elements { self[name] = value }
    }
}

extension JSONObject: Equatable {
    /// Returns whether both have the same members in the same order.
    package static func == (left: JSONObject, right: JSONObject) -> Bool {
        left.members.elementsEqual(right.members) { Name(text: $0.name) == Name(text: $1.name) && $0.value == $1.value }
    }
}

/// A string that is compared byte by byte.
struct Name: Hashable {
    let text: String

    static func == (left: Name, right: Name) -> Bool {
        // `elementsEqual` over the two views would take three times as long.
        guard left.text.utf8.count == right.text.utf8.count else { return false }
        let left = left.text.utf8.span
        let right = right.text.utf8.span
        for index in left.indices where left[index] != right[index] { return false }
        return true
    }

    func hash(into hasher: inout Hasher) {
        var text = text
        text.withUTF8 { hasher.combine(bytes: UnsafeRawBufferPointer($0)) }
    }
}
