package import HTTPTypes
import Net

/// A complete response.
package struct HTTPClientResponse: Sendable {
    /// The status code, 200 to 999. Redirects are returned, not followed.
    package var status: Int
    /// The header lines as received. They are parsed on demand, since most callers need only the body.
    private let fields: FieldLines
    /// The body as sent: chunks are joined, compression is not decoded.
    package var body: [UInt8]

    init(head: ResponseParser.Head, body: [UInt8]) {
        status = head.status
        fields = head.fields
        self.body = body
    }

    /// The header fields. Trailer fields are not included.
    package var headerFields: HTTPFields { fields.all }
}
