import HTTPTypes

/// Serializes requests (RFC 9112 §2.1).
struct RequestEncoder {
    private let userAgent: String
    /// The previous request's head without `Content-Length`. Consecutive requests often have the same one.
    private var latest: (method: HTTPRequest.Method, url: String, fields: HTTPFields, head: [UInt8])?

    init(userAgent: String) {
        self.userAgent = userAgent
    }

    /// Appends a request for this origin to `output`, without its upload. Returns the length of its head in bytes.
    mutating func encode(_ request: HTTPClientRequest, to origin: Origin, into output: inout [UInt8]) -> Int {
        let start = output.count
        if let latest, latest.method == request.method, latest.url == request.url,
            latest.fields == request.headerFields
        {
            output += latest.head
        } else {
            let head = head(of: request, to: origin)
            output += head
            latest = (request.method, request.url, request.headerFields, head)
        }
        // `Content-Length: 0` is sent for methods that expect a body (RFC 9110 §8.6).
        let length = request.body.count + (request.upload?.length ?? 0)
        if length > 0 || [.post, .put, .patch].contains(request.method) {
            output += "Content-Length: \(length)\r\n".utf8
        }
        output += "\r\n".utf8
        let headLength = output.count - start
        output += request.body
        return headLength
    }

    private func head(of request: HTTPClientRequest, to origin: Origin) -> [UInt8] {
        var head =
            "\(request.method.rawValue) \(origin.target(of: request.url)) HTTP/1.1\r\nHost: \(origin.authority)\r\n"
        if request.headerFields[.userAgent] == nil { head += "User-Agent: \(userAgent)\r\n" }
        for field in request.headerFields {
            head += field.value.isEmpty ? "\(field.name.rawName):\r\n" : "\(field.name.rawName): \(field.value)\r\n"
        }
        return Array(head.utf8)
    }
}
