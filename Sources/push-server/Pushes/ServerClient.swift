internal import EventLoop
internal import FoundationEssentials
internal import HTTPClient
internal import HTTPTypes
internal import JSON

/// Calls the HTTP API of a running server with an operator's key.
struct ServerClient: Sendable {
    /// The longest answer: a page of ``pushesAPage`` pushes that each name as many users as one may.
    private static let maximumResponseBytes = JSONValue.maximumBytes
    static let pushesAPage = 50
    static let batchesAPage = 1000
    /// A dry run counts all users of an audience before it is answered, and an upload is sorted.
    private static let longTimeout = Duration.seconds(3600)
    /// How often a call is made that may be repeated: the waits between them are 0.5, 1, 2 and 4 s.
    private static let maximumAttempts = 5
    private static let firstDelay = Duration.milliseconds(500)

    let loop: EventLoop
    private let url: String
    private let key: String
    private let http: HTTPClient

    /// - Throws: ``HTTPClientError`` when the file of certificates cannot be read.
    init(url: String, key: String, caCertificateFile: String?, loop: EventLoop) throws {
        self.loop = loop
        self.url = url.hasSuffix("/") ? String(url.dropLast()) : url
        self.key = key
        http = try HTTPClient(
            settings: HTTPClientSettings(
                connectTimeout: .seconds(5),
                totalTimeout: .seconds(30),
                maximumResponseBytes: Self.maximumResponseBytes,
                caCertificateFile: caCertificateFile,
                userAgent: "push-server"
            ),
            loop: loop
        )
    }

    func shutdown() async {
        await http.shutdown()
    }

    // MARK: Pushes

    func push(_ id: UUID) async throws -> JSONValue {
        try await call(.get, Self.path(id))
    }

    /// The pushes, the latest first, at most `limit` of them, a page at a time.
    func pushes(state: String?, limit: Int, _ body: ([JSONValue]) throws -> Void) async throws {
        try await pages("/v1/pushes", state: state, limit: limit, itemsAPage: Self.pushesAPage, body)
    }

    /// The batches of a push in the order of their numbers, a page at a time.
    func batches(of id: UUID, state: String?, _ body: ([JSONValue]) throws -> Void) async throws {
        try await pages("\(Self.path(id))/batches", state: state, limit: .max, itemsAPage: Self.batchesAPage, body)
    }

    /// - Parameters:
    ///   - control: The last part of the path: `pause`, `resume`, `cancel` or `retry`.
    ///   - body: A JSON object; empty for none.
    func control(_ id: UUID, _ control: String, body: [UInt8] = []) async throws -> JSONValue {
        try await call(
            .post,
            "\(Self.path(id))/\(control)",
            body,
            contentType: body.isEmpty ? nil : "application/json"
        )
    }

    /// Has a push made, or shows what would become of it. Repeated when the connection is lost, which the key makes safe.
    func send(_ push: PushRequest, idempotencyKey: String) async throws -> JSONValue {
        try await repeating {
            try await call(
                .post,
                "/v1/pushes",
                push.body,
                contentType: "application/json",
                idempotencyKey: idempotencyKey,
                timeout: push.isDryRun ? Self.longTimeout : nil
            )
        }
    }

    // MARK: Audiences

    /// Stores users, one a line, under a name that needs no escape in a path. Returns how many there are.
    func upload(_ lines: [UInt8], as name: String) async throws -> Int64 {
        // In one step: done again, it leads to the same.
        let audience = try await repeating {
            try await call(.put, "/v1/audiences/\(name)", lines, contentType: "text/plain", timeout: Self.longTimeout)
        }
        return audience["users"]?.integer ?? 0
    }

    func deleteAudience(_ name: String) async throws {
        _ = try await call(.delete, "/v1/audiences/\(name)")
    }

    // MARK: Calls

    private static func path(_ id: UUID) -> String { "/v1/pushes/\(id.uuidString.lowercased())" }

    private func pages(
        _ path: String,
        state: String?,
        limit: Int,
        itemsAPage: Int,
        _ body: ([JSONValue]) throws -> Void
    ) async throws {
        var rest = limit
        var cursor: String?
        repeat {
            // Neither a state nor a cursor, which is an id or a number, holds anything that a query would not.
            let query = [("state", state), ("limit", String(min(rest, itemsAPage))), ("cursor", cursor)]
            let fields = query.compactMap { name, value in value.map { "\(name)=\($0)" } }.joined(separator: "&")
            let page = try await call(.get, "\(path)?\(fields)")
            let items = page["items"]?.array ?? []
            try body(items)
            rest -= items.count
            cursor = items.isEmpty ? nil : page["next"]?.string
        } while cursor != nil && rest > 0
    }

    /// Makes a call, and makes it again a few times while the server does not answer.
    ///
    /// - Parameter call: One that may arrive twice.
    private func repeating(_ call: () async throws -> JSONValue) async throws -> JSONValue {
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

    private func call(
        _ method: HTTPRequest.Method,
        _ path: String,
        _ body: [UInt8] = [],
        contentType: String? = nil,
        idempotencyKey: String? = nil,
        timeout: Duration? = nil
    ) async throws -> JSONValue {
        var request = HTTPClientRequest(method: method, url: url + path, body: body, totalTimeout: timeout)
        request.headerFields[.authorization] = "Bearer \(key)"
        request.headerFields[.accept] = "application/json"
        request.headerFields[.contentType] = contentType
        if let name = HTTPField.Name("Idempotency-Key") { request.headerFields[name] = idempotencyKey }
        let response: HTTPClientResponse
        do {
            response = try await http.send(request)
        } catch {
            throw CallFailure(error, url)
        }
        guard (200...299).contains(response.status) else { throw CallFailure(response, url) }
        guard !response.body.isEmpty else { return .null }
        guard let json = try? JSONValue(parsing: response.body) else {
            throw CallFailure(kind: .refused, description: "\(url) answered what is no JSON: is it a push-server?")
        }
        return json
    }
}

/// A call that did not succeed.
struct CallFailure: Error, CustomStringConvertible {
    enum Kind: Sendable {
        /// No connection was made: the server knows nothing of the call.
        case unreachable
        /// The call may have arrived; there was no answer.
        case lost
        /// The server, or a proxy before it, cannot work now: 502, 503, 504.
        case unavailable
        /// The answer is no, and will be.
        case refused
    }

    let kind: Kind
    /// What happened and what to do.
    let description: String
}

extension CallFailure {
    /// - Parameter url: The server's address; shown only when it could be called.
    fileprivate init(_ error: HTTPClientError, _ url: String) {
        switch error.code {
        case .cannotResolve, .cannotConnect:
            kind = .unreachable
            description = """
                There is no connection to \(url) (\(error.message)). Start the server with push-server serve or push-server dev, or \
                say where it is with --url or SERVER_URL.
                """
        case .tls:
            kind = .refused
            description = "\(error.message). If the server's certificate is your own, name it with --ca-file."
        case .timedOut where !error.bodyBytesLeft:
            kind = .unreachable
            description = "\(url) does not answer (\(error.message)). Is --url, or SERVER_URL, where the server is?"
        case .timedOut, .connectionLost:
            kind = .lost
            description = "\(error.message)."
        case .invalidRequest:
            kind = .refused
            description = "--url, or SERVER_URL, must be as http://127.0.0.1:8080, http or https: \(error.message)."
        case .invalidSettings, .responseTooLarge, .badResponse, .canceled, .expired, .overloaded, .shutDown,
            .internalFailure:
            kind = .refused
            description = "\(error.message)."
        }
    }

    fileprivate init(_ response: HTTPClientResponse, _ url: String) {
        kind = (502...504).contains(response.status) ? .unavailable : .refused
        let detail = (try? JSONValue(parsing: response.body))?["detail"]?.string
        description = detail.map(Text.printable) ?? "\(url) answered \(response.status): is it a push-server?"
    }
}
