import HTTPServer
import HTTPTypes
import JSON
import Locking
import Schemas

/// `GET /openapi.json`: the description of all operations.
package struct OpenAPIRoutes: RouteCollection {
    package static let path = "/openapi.json"

    package static let title = "Description"
    package static let operations: [Operation<OpenAPIRoutes>] = [
        Operation(
            OperationDeclaration(
                "getOpenAPIDocument",
                .get,
                path,
                .operatorPort(.constantCost),
                "Returns this document.",
                answers: [
                    .json(.ok, .object, "The document.", headers: [.init("ETag", "Changes with the document.")]),
                    .empty(.notModified, "The document is the one that `If-None-Match` names."),
                ]
            ),
            immediate: show
        )
    ]

    /// The size of the pieces in which the document is sent, in bytes.
    private static let pieceBytes = 16 * 1024

    private let document: OpenAPIDocument
    /// The document as it is sent, from the first request on: most servers are never asked for it.
    private let encoded = Locked<Encoded?>(nil)

    private struct Encoded {
        let body: [UInt8]
        let entityTag: String

        init(_ document: OpenAPIDocument) {
            body = document.json.bytes()
            // FNV-1a: it distinguishes versions of the document, and needs to be no more than that.
            let hash = body.reduce(into: UInt64(0xCBF2_9CE4_8422_2325)) { $0 = ($0 ^ UInt64($1)) &* 0x100_0000_01B3 }
            entityTag = "\"\(String(hash, radix: 16))\""
        }
    }

    package init(_ document: OpenAPIDocument) { self.document = document }

    @Sendable private func show(_ call: Call) -> Response {
        let encoded = encoded.withLock { encoded in
            let value = encoded ?? Encoded(document)
            encoded = value
            return value
        }
        let entityTag = encoded.entityTag
        var response =
            call.request.names(entityTag)
            ? Response(.notModified) : .json { try await Self.write(encoded.body, to: $0) }
        response.headerFields[.eTag] = entityTag
        return response
    }

    /// Writes the document in pieces, so that a client that reads slowly takes no more memory than a piece.
    private static func write(_ body: [UInt8], to writer: ResponseBodyWriter) async throws {
        var rest = body[...]
        while !rest.isEmpty {
            try await writer.write(Array(rest.prefix(pieceBytes)))
            rest = rest.dropFirst(pieceBytes)
        }
    }
}
