package import HTTPServer
import HTTPTypes

extension Response {
    /// Returns a response with all items of a list, which are read page by page, as fast as the client reads them.
    ///
    /// The first page is read before the response begins, so that an unavailable database is still reported by its
    /// status. A later failure closes the connection before the end of the body.
    ///
    /// - Parameters:
    ///   - contentType: The media type, without parameters.
    ///   - header: The bytes before the first item.
    ///   - page: Returns the next items after the given one, or the first items; none after the last item.
    ///   - write: Appends an item to the body.
    package static func export<Item: Sendable>(
        _ contentType: String,
        header: [UInt8] = [],
        page: @escaping @Sendable (_ last: Item?) async throws -> [Item],
        write: @escaping @Sendable (Item, inout [UInt8]) -> Void
    ) async throws -> Response {
        let first = try await page(nil)
        return Response(
            .ok,
            contentType: "\(contentType);charset=UTF-8",
            headerFields: [.cacheControl: "no-store"]
        ) { writer in
            var (bytes, items) = (header, first)
            repeat {
                for item in items { write(item, &bytes) }
                try await writer.write(bytes)
                bytes.removeAll(keepingCapacity: true)
                guard let last = items.last else { return }
                items = try await page(last)
            } while !items.isEmpty
        }
    }
}
