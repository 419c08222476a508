package import FoundationEssentials
package import HTTPServer
package import HTTPTypes
package import Postgres

/// The outcome of a request that creates an object and may be repeated (``Idempotency``).
package struct Creation: Sendable {
    /// The id of the object.
    package let id: UUID
    /// The body of the response to the request and to its repetitions.
    package let body: [UInt8]
    /// Whether an earlier request has created the object.
    package var isRepetition = false

    package init(id: UUID, body: [UInt8]) {
        self.id = id
        self.body = body
    }

    /// Decodes an earlier request with the same key: the id, the body, and whether the digest is that of this request. Returns `nil` if
    /// it is not.
    package static func decode(_ row: PostgresRow) throws -> Creation? {
        let (id, body, isSame) = try row.decode(UUID.self, [UInt8].self, Bool.self)
        var creation = Creation(id: id, body: body)
        creation.isRepetition = true
        return isSame ? creation : nil
    }

    /// Returns the response, which names the object's path.
    ///
    /// - Parameter path: The path of all objects of this kind.
    package func response(under path: String, status: HTTPResponse.Status) -> Response {
        var response = Response.json(body, status: status)
        response.headerFields[.location] = "\(path)/\(id.lowercased)"
        return response
    }
}

extension Idempotency {
    /// The parameters of a statement that finds an earlier request with the same key: the operator key, the key, and the digest.
    package var parameters: [PostgresValue] { [.bytes(operatorKey), .text(key), .bytes(digest)] }
}
