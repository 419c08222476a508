/// Parses server-sent events (WHATWG HTML §9.2) from bytes that arrive in pieces.
///
/// Only their data matters here: names and ids are ignored.
struct EventStreamParser {
    /// The maximum length of an event. A push with the most users that a request may name is far below.
    private static let maximumEvent = 16 * 1024 * 1024

    /// What a stream contains.
    enum Item: Equatable {
        case data([UInt8])
        /// A comment, which shows that the stream is alive.
        case comment
    }

    private var line: [UInt8] = []
    private var data: [UInt8]?

    /// Returns the items that the next bytes complete. Returns `nil` if an event is too long.
    mutating func receive(_ bytes: [UInt8]) -> [Item]? {
        var items: [Item] = []
        for byte in bytes {
            if byte == UInt8(ascii: "\n") {
                if let item = endLine() { items.append(item) }
            } else {
                guard line.count + (data?.count ?? 0) < Self.maximumEvent else { return nil }
                line.append(byte)
            }
        }
        return items
    }

    private mutating func endLine() -> Item? {
        if line.last == UInt8(ascii: "\r") { line.removeLast() }
        defer { line.removeAll(keepingCapacity: true) }
        guard let first = line.first else {
            guard let data else { return nil }
            self.data = nil
            return .data(data)
        }
        if first == UInt8(ascii: ":") { return .comment }
        let prefix = Array("data:".utf8)
        guard line.starts(with: prefix) else { return nil }
        var value = line[prefix.count...]
        if value.first == UInt8(ascii: " ") { value.removeFirst() }
        // The lines of one event are joined.
        data = data.map { $0 + [UInt8(ascii: "\n")] + value } ?? Array(value)
        return nil
    }
}
