internal import FoundationEssentials
internal import HTTPServer
internal import JSON

/// What a list is sorted by, and so what tells where one of its pages ends.
protocol PageCursor {
    /// What a cursor that was given to a caller stood for; `nil` for a text that was not.
    init?(cursor: String)
    /// At most 100 characters.
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

/// One page of a list: `limit` (100, at most 1000) and `cursor`, which `next` of the page before it gave.
struct Page<Cursor: PageCursor> {
    let limit: Int
    let cursor: Cursor?

    init(_ parameters: Parameters) throws {
        limit = Int(try parameters.optionalInteger("limit", in: 1...1000) ?? 100)
        cursor = try parameters.optionalText("cursor", length: 1...100).map { text in
            guard let cursor = Cursor(cursor: text) else {
                throw Problem.field("cursor", "what next was in the page before")
            }
            return cursor
        }
    }

    /// `{"items": […], "next": …}`.
    ///
    /// - Parameters:
    ///   - items: Up to one more than `limit`: that one is not shown, and means that there is a next page.
    ///   - key: What the next page is asked for by.
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
    /// A moment in RFC 3339: `2026-11-21T08:15:30Z`.
    func optionalTime(_ name: String) throws -> Date? {
        try optionalText(name, length: 1...40).map { text in
            guard let date = Date(rfc3339: text) else {
                throw Problem.field(name, "a time such as 2026-11-21T08:15:30Z or 2026-11-21T17:15:30.500+09:00")
            }
            return date
        }
    }
}
