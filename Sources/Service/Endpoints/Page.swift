package import FoundationEssentials
package import HTTPServer
import HTTPTypes
import JSON
package import Schemas

/// The sort key of a list, which marks where a page ends.
package protocol PageCursor: Sendable {
    /// Parses the text of a ``cursor``; `nil` if it is invalid.
    init?(cursor: String)
    /// The key as text of at most 100 characters.
    var cursor: String { get }
}

extension UUID: PageCursor {
    package init?(cursor: String) { self.init(uuidString: cursor) }

    package var cursor: String { lowercased }
}

extension PageCursor where Self: FixedWidthInteger {
    package init?(cursor: String) {
        guard let number = Int64(decimal: cursor).flatMap(Self.init(exactly:)) else { return nil }
        self = number
    }

    package var cursor: String { String(self) }
}

extension String: PageCursor {
    package init?(cursor: String) { self = cursor }

    package var cursor: String { self }
}

extension Int32: PageCursor {}
extension Int64: PageCursor {}

/// The field `limit`. It is outside of ``Page``, since a generic type has no static stored properties.
private let limitField = Field.optional(
    "limit",
    Kind<Int64>.integer(1...1000),
    default: 100,
    shown: 100,
    "The number of items of a page."
)

/// The request for a page of a list: `limit` (default 100, at most 1000) and `cursor`, the previous page's `next`.
package struct Page<Cursor: PageCursor>: Sendable {
    /// The fields of the request.
    package static var fields: [any FieldDeclaration] { [limitField, cursor] }

    private static var cursor: Field<Cursor?> {
        .optional("cursor", .cursor, "`next` of the previous page. Without it, the first page is returned.")
    }

    /// The maximum number of items.
    package let limit: Int
    /// The key after which the page begins; `nil` for the first page.
    package let cursor: Cursor?

    /// - Throws: ``Problem`` 400 for an invalid field.
    package init(_ call: Call) throws {
        limit = Int(try call[limitField])
        cursor = try call[Self.cursor]
    }

    /// Returns the page as `{"items": […], "next": …}`.
    ///
    /// - Parameters:
    ///   - items: Up to `limit` + 1 items. The additional item is not written; it means that there is a next page.
    ///   - shape: The shape of an item.
    ///   - key: Returns the sort key of an item. The last written item's key becomes the next page's cursor.
    package func response<Item>(_ items: [Item], _ shape: Shape<Item>, cursor key: (Item) -> Cursor) -> Response {
        let shown = items.prefix(limit)
        return Self.response(shown, shape, next: items.count > limit ? shown.last.map(key) : nil)
    }

    /// Returns the page as `{"items": […], "next": …}`.
    ///
    /// - Parameters:
    ///   - items: The items of the page.
    ///   - shape: The shape of an item.
    ///   - next: The key after which the next page begins; `nil` on the last page.
    package static func response<Item>(
        _ items: some Collection<Item>,
        _ shape: Shape<Item>,
        next: Cursor?
    ) -> Response {
        var json = JSONWriter(reservingCapacity: 256 * items.count + 64)
        json.object { json in
            json.array("items") { json in
                for item in items { json.element { shape.kind.write(item, &$0) } }
            }
            json.member("next", next?.cursor)
        }
        return .json(json.bytes)
    }
}

extension Answer {
    /// A page of items.
    package static func page<Item>(of shape: Shape<Item>, _ description: String) -> Answer {
        .json(
            .ok,
            .object([
                ("items", .array(of: shape.kind.output), true),
                (
                    "next", Schema.text().nullable.described("The `cursor` of the next page; null on the last one."),
                    true
                ),
            ]),
            description
        )
    }
}

extension Kind where Value: PageCursor {
    fileprivate static var cursor: Kind {
        Kind(
            text: .text(length: 1...100),
            allowed: "the value of next in the previous page",
            parse: { Text.isValid($0, 1...100) ? Value(cursor: $0) : nil },
            format: \.cursor
        )
    }
}
