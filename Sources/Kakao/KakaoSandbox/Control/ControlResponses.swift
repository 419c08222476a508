import HTTPServer
import HTTPTypes
import JSON

extension Router {
    /// Adds a control that answers at once.
    mutating func control(
        _ method: HTTPRequest.Method,
        _ pattern: String,
        _ respond: @escaping @Sendable (Request) throws -> Response
    ) {
        add(method, pattern, .immediate(respond))
    }

    /// Adds a control that changes something at once, and answers 204.
    mutating func command(
        _ method: HTTPRequest.Method,
        _ pattern: String,
        _ change: @escaping @Sendable (Request) throws -> Void
    ) {
        control(method, pattern) { request in
            try change(request)
            return Response(.noContent)
        }
    }
}

extension Response {
    /// Returns a response with a value as JSON.
    static func json(_ value: some JSONWritable) -> Response {
        var json = JSONWriter()
        json.value(value)
        return .json(json.bytes)
    }

    /// Returns a response with a JSON object whose members `body` writes.
    static func json(status: HTTPResponse.Status = .ok, _ body: (inout JSONWriter.Members) -> Void) -> Response {
        var json = JSONWriter()
        json.object(body)
        return .json(json.bytes, status: status)
    }

    /// Returns a response with a page of a numbered record, and the number after which the next page begins, if there may
    /// be one.
    static func page<Entry: JSONWritable>(
        _ entries: [Entry],
        limit: Int,
        number: (Entry) -> Int
    ) -> Response {
        .json {
            $0.member("items", entries)
            $0.member("next", entries.count == limit ? entries.last.map(number) : nil)
        }
    }
}

extension JSONWriter.Members {
    /// Writes a member that is an object of counts, sorted by their names.
    mutating func counts(_ name: String, _ counts: [String: Int]) {
        object(name) { json in
            for (name, count) in counts.sorted(by: { $0.key < $1.key }) { json.member(name, count) }
        }
    }
}
