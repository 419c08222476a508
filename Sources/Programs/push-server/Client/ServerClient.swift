import EventLoop
import HTTPClient
import HTTPServer
import HTTPTypes
import JSON
import Net

/// A client of the HTTP API of a running server, with an operator key.
struct ServerClient: Sendable {
    /// The maximum size of a response in bytes, apart from an export: more than any page of a list.
    private static let maximumResponseBytes = 64 * 1024 * 1024
    /// The largest page of a list.
    static let largestPage = 1000
    /// The timeout of pushes and uploads. The users of a push may be counted, and an upload is sorted, before the response.
    static let longTimeout = Duration.seconds(3600)
    /// The maximum number of attempts of a call that may be retried. The delays between them are 0.5, 1, 2 and 4 s.
    private static let maximumAttempts = 5
    private static let firstDelay = Duration.milliseconds(500)

    let loop: EventLoop
    /// The address of the server, without a slash at its end.
    let url: String
    /// Whether the command shows times in UTC on a terminal too.
    let prefersUTC: Bool
    private let key: String
    private let http: HTTPClient

    /// - Throws: `TLSError` if the file of certificates cannot be read.
    init(url: String, key: String, caCertificateFile: String?, prefersUTC: Bool = false, loop: EventLoop) throws {
        self.loop = loop
        self.url = url.hasSuffix("/") ? String(url.dropLast()) : url
        self.key = key
        self.prefersUTC = prefersUTC
        http = HTTPClient(
            settings: HTTPClientSettings(
                connectTimeout: .seconds(5),
                totalTimeout: .seconds(30),
                maximumResponseBytes: Self.maximumResponseBytes,
                trust: try .reading(caCertificateFile),
                userAgent: "push-server"
            ),
            loop: loop
        )
    }

    func shutdown() async {
        await http.shutdown()
    }

    // MARK: Calls

    /// A parameter of a query; `nil` for none.
    typealias Filter = (name: String, value: String?)

    func get(_ path: String, _ filters: [Filter] = []) async throws -> JSONValue {
        try await call(request(.get, Self.path(path, filters)))
    }

    func delete(_ path: String) async throws {
        _ = try await call(request(.delete, path))
    }

    /// Performs an operation and returns the response's JSON; `null` for an empty response.
    ///
    /// - Parameter body: A JSON object; `nil` for none.
    @discardableResult
    func post(_ path: String, _ body: JSONObject? = nil) async throws -> JSONValue {
        try await call(request(.post, path, json: body))
    }

    /// Creates a push or a message, or returns the result of a dry run. Retries if the connection is lost, which the key makes
    /// safe.
    func create(
        _ path: String,
        _ body: JSONObject,
        idempotencyKey: String,
        timeout: Duration? = nil
    ) async throws -> JSONValue {
        var request = request(.post, path, json: body)
        if let name = HTTPField.Name("Idempotency-Key") { request.headerFields[name] = idempotencyKey }
        request.totalTimeout = timeout
        return try await retrying { try await call(request) }
    }

    /// Stores the lines of a text. Retries if the connection is lost: the server stores all of them or none.
    func put(_ path: String, lines: [UInt8]) async throws -> JSONValue {
        var request = request(.put, path)
        request.headerFields[.contentType] = "text/plain"
        request.body = lines
        request.totalTimeout = Self.longTimeout
        return try await retrying { try await call(request) }
    }

    /// Calls `write` with each part of an export as it arrives, however long the export is.
    ///
    /// - Throws: ``CallFailure`` if there is none, or if it ends early; any error of `write`.
    func export(_ path: String, _ filters: [Filter], _ write: ([UInt8]) throws -> Void) async throws {
        var request = request(.get, Self.path(path, filters))
        request.totalTimeout = Self.longTimeout
        try await stream(request) { stream in
            while let part = try await stream.next() { try write(part) }
        }
    }

    /// Lists at most `limit` items, and calls `body` with each page.
    func pages(
        _ path: String,
        _ filters: [Filter] = [],
        limit: Int = .max,
        largestPage: Int = ServerClient.largestPage,
        _ body: ([JSONValue]) throws -> Void
    ) async throws {
        var rest = limit
        var cursor: String?
        repeat {
            let range = [("limit", String(min(rest, largestPage))), ("cursor", cursor)]
            let page = try await get(Self.path(path, filters + range))
            let items = page["items"]?.array ?? []
            try body(items)
            rest -= items.count
            cursor = page["next"]?.string
        } while cursor != nil && rest > 0
    }

    /// Follows server-sent events, and calls `body` with the data of each, and with `nil` when the server says that there is
    /// nothing new. Returns when the server ends the events, or when `body` returns a value.
    func events<Result>(_ path: String, _ body: (JSONValue?) async throws -> Result?) async throws -> Result? {
        try await stream(request(.get, path)) { stream -> Result? in
            var parser = EventStreamParser()
            while let part = try await stream.next() {
                guard let items = parser.receive(part) else { throw notJSON }
                for item in items {
                    if let result = try await body(try json(item)) { return result }
                }
            }
            return nil
        }
    }

    /// Makes a call, and calls `body` with its response as it arrives.
    private func stream<Result>(
        _ request: HTTPClientRequest,
        _ body: (HTTPClientStream) async throws -> Result
    ) async throws -> Result {
        do {
            return try await http.stream(request) { stream in
                guard stream.status == 200 else {
                    throw CallFailure(stream.status, stream.headerFields, try await stream.next() ?? [], url)
                }
                return try await body(stream)
            }
        } catch let error as HTTPClientError {
            throw CallFailure(error, url)
        }
    }

    private func json(_ item: EventStreamParser.Item) throws -> JSONValue? {
        guard case .data(let bytes) = item else { return nil }
        guard let json = try? JSONValue(parsing: bytes) else { throw notJSON }
        return json
    }

    private var notJSON: CallFailure {
        CallFailure(kind: .refused, description: "The response of \(url) is not JSON. Is it a push-server?")
    }

    /// Makes a call, and retries it a few times while the server does not respond or is unavailable.
    ///
    /// - Parameter call: An idempotent call.
    func retrying(_ call: () async throws -> JSONValue) async throws -> JSONValue {
        var delay = Self.firstDelay
        var wasReached = false
        for _ in 1..<Self.maximumAttempts {
            do {
                return try await call()
            } catch let failure as CallFailure {
                guard
                    failure.kind == .lost || failure.kind == .unavailable
                        || (failure.kind == .unreachable && wasReached)
                else { throw failure }
                wasReached = true
                try await loop.sleep(for: delay)
                delay *= 2
            }
        }
        return try await call()
    }

    /// Makes a call and returns the response's JSON; `null` for an empty response.
    private func call(_ request: HTTPClientRequest) async throws -> JSONValue {
        let answer = try await send(request)
        guard !answer.isEmpty else { return .null }
        guard let json = try? JSONValue(parsing: answer) else { throw notJSON }
        return json
    }

    /// Makes a call and returns the response's body.
    private func send(_ request: HTTPClientRequest) async throws -> [UInt8] {
        let response: HTTPClientResponse
        do {
            response = try await http.send(request)
        } catch {
            throw CallFailure(error, url)
        }
        guard (200...299).contains(response.status) else {
            throw CallFailure(response.status, response.headerFields, response.body, url)
        }
        return response.body
    }

    private func request(_ method: HTTPRequest.Method, _ path: String, json: JSONObject? = nil) -> HTTPClientRequest {
        var request = HTTPClientRequest(method: method, url: url + path)
        request.headerFields[.authorization] = "Bearer \(key)"
        if let json {
            request.headerFields[.contentType] = "application/json"
            request.body = JSONValue.object(json).bytes()
        }
        return request
    }

    private static func path(_ path: String, _ filters: [Filter]) -> String {
        var query = FormBody()
        for (name, value) in filters {
            if let value { query.append(name, value) }
        }
        return query.bytes.isEmpty ? path : "\(path)?\(String(decoding: query.bytes, as: UTF8.self))"
    }
}

/// A failed call.
struct CallFailure: FailureOfArguments, CustomStringConvertible {
    enum Kind: Sendable {
        /// No connection was established, so the server did not receive the request.
        case unreachable
        /// The server may have received the request, but there was no response.
        case lost
        /// The server or its proxy is temporarily unavailable: 502, 503, 504.
        case unavailable
        /// The call failed, and a retry would fail too.
        case refused
    }

    let kind: Kind
    /// The problem and its remedy.
    let description: String
    /// The field of the request that is invalid, if the server named one.
    var field: String?
    /// The kind of problem that the server named, such as `wrong-state`.
    var problem: String?
    /// Whether the server's address is none.
    var isOfInvalidURL = false

    /// Whether the server has rejected a field, which comes from an argument, or its address is invalid.
    var isOfArguments: Bool { isOfInvalidURL || field != nil && problem == "invalid-field" }
}

extension CallFailure {
    /// - Parameter url: The server's URL, for messages.
    init(_ error: HTTPClientError, _ url: String) {
        switch error.code {
        case .cannotResolve, .cannotConnect, .proxy:
            kind = .unreachable
            description = """
                Cannot connect to \(url) (\(error.message)). Start the server with push-server serve or push-server dev, or give its \
                URL with --url or SERVER_URL.
                """
        case .tls:
            kind = .refused
            description = "\(error.message). If the certificate is self-signed or of a private CA, use --ca-file."
        case .timedOut where !error.mayHaveBeenSent:
            kind = .unreachable
            description = "\(url) does not respond (\(error.message)). Is --url or SERVER_URL correct?"
        case .timedOut, .connectionLost:
            kind = .lost
            description = "\(error.message)."
        case .invalidRequest:
            kind = .refused
            isOfInvalidURL = true
            description = "--url or SERVER_URL must be a URL such as http://127.0.0.1:8080: \(error.message)."
        case .responseTooLarge, .badResponse, .canceled, .expired, .overloaded, .shutDown,
            .uploadFailed,
            .internalFailure:
            kind = .refused
            description = "\(error.message)."
        }
    }

    fileprivate init(_ status: Int, _ headerFields: HTTPFields, _ body: [UInt8], _ url: String) {
        kind = (502...504).contains(status) ? .unavailable : .refused
        let json = try? JSONValue(parsing: body)
        let detail = json?["detail"]?.string
        field = json?["field"]?.string
        problem = json?["type"]?.string?.split(separator: ":").last.map(String.init)
        var text = detail.map(Text.printable) ?? "\(url) responded with \(status). Is it a push-server?"
        // A server with a port for operators offers none of their paths at the other one.
        if status == 404, detail?.hasPrefix("There is nothing at this path.") == true {
            text += " If \(url) is not the server's http.operator_port, use that."
        }
        // The server's log has more under this id.
        if let request = headerFields[.requestID] { text += " (request \(Text.printable(request)))" }
        description = text
    }
}
