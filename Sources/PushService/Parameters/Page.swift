internal import FoundationEssentials
internal import HTTPServer
internal import JSON

/// One page of a list: `limit` (100, at most 1000) and `cursor`, which `next` of the page before it gave.
struct Page<Cursor> {
    let limit: Int
    let cursor: Cursor?

    /// - Parameter parse: Reads a cursor; `nil` for a text that is none.
    init(_ parameters: Parameters, parse: (String) -> Cursor?) throws {
        limit = Int(try parameters.optionalInteger("limit", in: 1...1000) ?? 100)
        cursor = try parameters.optionalText("cursor", length: 1...100).map { text in
            guard let cursor = parse(text) else { throw Problem.field("cursor", "what next was in the page before") }
            return cursor
        }
    }

    /// `{"items": […], "next": …}`.
    ///
    /// - Parameters:
    ///   - items: Up to one more than `limit`: that one is not shown, and means that there is a next page.
    ///   - cursor: What the next page is asked for by.
    func response<Item>(
        _ items: [Item],
        cursor: (Item) -> String,
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
            json.member("next", items.count > limit ? shown.last.map(cursor) : nil)
        }
        return .json(json.bytes)
    }
}

extension Page<UUID> {
    init(_ parameters: Parameters) throws {
        try self.init(parameters) { UUID(uuidString: $0) }
    }
}

extension Parameters {
    /// A moment in RFC 3339: `2026-11-21T08:15:30Z`.
    func optionalTime(_ name: String) throws -> Date? {
        guard let text = try optionalText(name, length: 1...40) else { return nil }
        let styles = [Date.ISO8601FormatStyle(), Date.ISO8601FormatStyle(includingFractionalSeconds: true)]
        for style in styles {
            if let date = try? style.parse(text) { return date }
        }
        throw Problem.field(name, "a time such as 2026-11-21T08:15:30Z")
    }
}
