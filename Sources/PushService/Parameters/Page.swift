internal import FoundationEssentials
internal import HTTPServer
internal import JSON

/// The sort key of a list, which marks where a page ends.
protocol PageCursor {
    /// Parses the text of a ``cursor``; `nil` if it is invalid.
    init?(cursor: String)
    /// The key as text of at most 100 characters.
    var cursor: String { get }
}

extension UUID: PageCursor {
    init?(cursor: String) { self.init(uuidString: cursor) }

    var cursor: String { lowercased }
}

extension Int32: PageCursor {
    init?(cursor: String) {
        guard let number = Int64(decimal: cursor).flatMap(Int32.init(exactly:)) else { return nil }
        self = number
    }

    var cursor: String { String(self) }
}

/// The request for a page of a list: `limit` (default 100, at most 1000) and `cursor`, the previous page's `next`.
struct Page<Cursor: PageCursor> {
    let limit: Int
    let cursor: Cursor?

    init(_ parameters: Parameters) throws {
        limit = Int(try parameters.optionalInteger("limit", in: 1...1000) ?? 100)
        cursor = try parameters.optionalText("cursor", length: 1...100).map { text in
            guard let cursor = Cursor(cursor: text) else {
                throw Problem.field("cursor", "the value of next in the previous page")
            }
            return cursor
        }
    }

    /// Returns the page as `{"items": […], "next": …}`.
    ///
    /// - Parameters:
    ///   - items: Up to `limit` + 1 items. The additional item is not written; it means that there is a next page.
    ///   - key: Returns the sort key of an item. The last written item's key becomes the next page's cursor.
    ///   - write: Writes the members of an item.
    func response<Item>(
        _ items: [Item],
        cursor key: (Item) -> Cursor,
        _ write: (Item, inout JSONWriter.Members) -> Void
    ) -> Response {
        let shown = items.prefix(limit)
        var json = JSONWriter(reservingCapacity: 256 * shown.count + 64)
        json.object { json in
            json.array("items") { json in
                for item in shown {
                    json.object { write(item, &$0) }
                }
            }
            json.member("next", items.count > limit ? shown.last.map { key($0).cursor } : nil)
        }
        return .json(json.bytes)
    }
}

extension Parameters {
    /// Returns a time given in RFC 3339, such as `2026-11-21T08:15:30Z`, or `nil` if the field is absent.
    ///
    /// - Throws: ``Problem`` for an invalid value.
    func optionalTime(_ name: String) throws -> Date? {
        try optionalText(name, length: 1...40).map { text in
            guard let date = Date(rfc3339: text) else {
                throw Problem.field(name, "a time such as 2026-11-21T08:15:30Z or 2026-11-21T17:15:30.500+09:00")
            }
            return date
        }
    }
}
