import EventLoop
import FoundationEssentials
import HTTPClient
import HTTPTypes
import JSON
import Net
import Schemas

/// A client of the HTTP API of a running server, with an operator key.
struct ServerClient: Sendable {
    /// The maximum size of a response in bytes: the ids of ten million users. A page of ``pushesAPage`` pushes, each with the
    /// maximum number of users, has at most ``JSONValue/maximumBytes``.
    private static let maximumResponseBytes = 200 * 1024 * 1024
    private static let pushesAPage = 50
    /// The largest page of a list.
    private static let largestPage = 1000
    /// The timeout of pushes and uploads. The users of a push may be counted, and an upload is sorted, before the response.
    private static let longTimeout = Duration.seconds(3600)
    /// The maximum number of attempts of a call that may be retried. The delays between them are 0.5, 1, 2 and 4 s.
    private static let maximumAttempts = 5
    private static let firstDelay = Duration.milliseconds(500)

    let loop: EventLoop
    /// The address of the server, without a slash at its end.
    let url: String
    private let key: String
    private let http: HTTPClient

    /// - Throws: `TLSError` if the file of certificates cannot be read.
    init(url: String, key: String, caCertificateFile: String?, loop: EventLoop) throws {
        self.loop = loop
        self.url = url.hasSuffix("/") ? String(url.dropLast()) : url
        self.key = key
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

    // MARK: Pushes

    func push(_ id: UUID) async throws -> JSONValue {
        try await call(.get, Self.path(id))
    }

    /// Follows the events of a push, and calls `body` with the push each time that it has changed, and with `nil` when the
    /// server says that it has not. Returns when the server ends the events, or when `body` returns a value.
    func events<Result>(of id: UUID, _ body: (JSONValue?) throws -> Result?) async throws -> Result? {
        let request = request(.get, "\(Self.path(id))/events")
        do {
            return try await http.stream(request) { stream -> Result? in
                guard stream.status == 200 else { throw CallFailure(stream.status, try await stream.next() ?? [], url) }
                var parser = EventStreamParser()
                while let part = try await stream.next() {
                    guard let items = parser.receive(part) else { throw notJSON }
                    for item in items {
                        if let result = try body(try json(item)) { return result }
                    }
                }
                return nil
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

    /// A parameter of a query; `nil` for none.
    typealias Filter = (name: String, value: String?)

    /// Lists at most `limit` pushes, newest first, and calls `body` with each page.
    func pushes(_ filters: [Filter], limit: Int, _ body: ([JSONValue]) throws -> Void) async throws {
        try await pages("/v1/pushes", filters, limit: limit, itemsAPage: Self.pushesAPage, body)
    }

    /// Returns the result of a push for a user.
    func user(_ userID: Int64, of id: UUID) async throws -> JSONValue {
        try await call(.get, "\(Self.path(id))/users/\(userID)")
    }

    /// Returns the users of a push in a state, one a line.
    ///
    /// - Parameter reason: Why, for the audit log.
    func users(of id: UUID, state: String, reason: String) async throws -> [UInt8] {
        var query = FormBody()
        query.append("state", state)
        query.append("reason", reason)
        let path = "\(Self.path(id))/users?\(String(decoding: query.bytes, as: UTF8.self))"
        return try await send(.get, path, timeout: Self.longTimeout)
    }

    /// Lists at most `limit` pushes that a user is in, newest first, and calls `body` with each page.
    ///
    /// - Parameter since: Only pushes created since this time, in RFC 3339.
    func pushes(
        ofUser userID: Int64,
        since: String?,
        limit: Int,
        _ body: ([JSONValue]) throws -> Void
    ) async throws {
        let path = "/v1/users/\(userID)/pushes"
        try await pages(path, [("since", since)], limit: limit, itemsAPage: Self.largestPage, body)
    }

    /// Lists the batches of a push in the order of their numbers, and calls `body` with each page.
    func batches(of id: UUID, state: String?, _ body: ([JSONValue]) throws -> Void) async throws {
        let path = "\(Self.path(id))/batches"
        try await pages(path, [("state", state)], limit: .max, itemsAPage: Self.largestPage, body)
    }

    /// Performs an operation on a push and returns the push.
    ///
    /// - Parameters:
    ///   - control: The last component of the path, such as `pause`.
    ///   - body: A JSON object; empty for none.
    func control(_ id: UUID, _ control: String, body: [UInt8] = []) async throws -> JSONValue {
        try await call(
            .post,
            "\(Self.path(id))/\(control)",
            body,
            contentType: body.isEmpty ? nil : "application/json"
        )
    }

    /// Creates a push, or returns the result of a dry run. Retries if the connection is lost, which the key makes safe.
    func send(_ push: PushRequest, idempotencyKey: String) async throws -> JSONValue {
        try await create("/v1/pushes", push.body, idempotencyKey: idempotencyKey, timeout: Self.longTimeout)
    }

    // MARK: Messages

    func message(_ id: UUID) async throws -> JSONValue {
        try await call(.get, Self.messagePath(id))
    }

    /// Lists at most `limit` messages, newest first, and calls `body` with each page.
    func messages(state: String?, sender: Int64?, limit: Int, _ body: ([JSONValue]) throws -> Void) async throws {
        let filters = [("state", state), ("sender", sender.map { String($0) })]
        try await pages("/v1/messages", filters, limit: limit, itemsAPage: Self.largestPage, body)
    }

    /// Lists at most `limit` receivers of a message in the order of the request, and calls `body` with each page.
    func receivers(of id: UUID, state: String?, limit: Int, _ body: ([JSONValue]) throws -> Void) async throws {
        let path = "\(Self.messagePath(id))/receivers"
        try await pages(path, [("state", state)], limit: limit, itemsAPage: Self.largestPage, body)
    }

    /// Creates a message, or returns the result of a dry run. Retries if the connection is lost, which the key makes safe.
    ///
    /// - Parameter message: The body of `POST /v1/messages`.
    func send(message: JSONObject, idempotencyKey: String) async throws -> JSONValue {
        try await create("/v1/messages", JSONValue.object(message).bytes(), idempotencyKey: idempotencyKey)
    }

    // MARK: Operation

    func status() async throws -> JSONValue {
        try await call(.get, "/v1/status")
    }

    /// Stops the sender and returns its state. A repeated request has no further effect.
    func stopSender(reason: String) async throws -> JSONValue {
        let body = JSONValue.object(["reason": .string(reason)]).bytes()
        return try await repeating {
            try await call(.post, "/v1/sender/stop", body, contentType: "application/json")
        }
    }

    /// Starts the sender and returns its state.
    func startSender() async throws -> JSONValue {
        try await repeating { try await call(.post, "/v1/sender/start") }
    }

    // MARK: Webhooks

    func webhooks() async throws -> JSONValue {
        try await call(.get, "/v1/webhooks")
    }

    /// Tests the endpoint of webhooks, and returns its response.
    func testWebhooks() async throws -> JSONValue {
        try await call(.post, "/v1/webhooks/test")
    }

    /// Lets webhooks be delivered again.
    ///
    /// - Parameter body: The body of `POST /v1/webhooks/replay`.
    func replayWebhooks(_ body: JSONObject) async throws {
        _ = try await send(
            .post,
            "/v1/webhooks/replay",
            JSONValue.object(body).bytes(),
            contentType: "application/json"
        )
    }

    /// Ends the delivery of webhooks that were to be delivered again.
    func cancelWebhookReplays() async throws {
        _ = try await send(.delete, "/v1/webhooks/replay")
    }

    // MARK: Audiences

    /// Stores users as an audience and returns their number.
    ///
    /// - Parameters:
    ///   - lines: The user ids, one per line.
    ///   - name: A name that needs no escaping in a path.
    func upload(_ lines: [UInt8], as name: String) async throws -> Int64 {
        // The request replaces the audience atomically, so a retry has the same result.
        let audience = try await repeating {
            try await call(.put, "/v1/audiences/\(name)", lines, contentType: "text/plain", timeout: Self.longTimeout)
        }
        return audience["users"]?.integer ?? 0
    }

    func deleteAudience(_ name: String) async throws {
        _ = try await call(.delete, "/v1/audiences/\(name)")
    }

    // MARK: Accounts

    func account(_ userID: Int64) async throws -> JSONValue {
        try await call(.get, "/v1/accounts/\(userID)")
    }

    /// Lists at most `limit` accounts in the order of their users, and calls `body` with each page.
    ///
    /// - Parameter endsBefore: Only accounts whose refresh token expires before this time, in RFC 3339.
    func accounts(
        state: String?,
        endsBefore: String?,
        limit: Int,
        _ body: ([JSONValue]) throws -> Void
    ) async throws {
        let filters = [("state", state), ("ends_before", endsBefore)]
        try await pages("/v1/accounts", filters, limit: limit, itemsAPage: Self.largestPage, body)
    }

    // MARK: Calls

    private static func path(_ id: UUID) -> String { "/v1/pushes/\(id.uuidString.lowercased())" }
    private static func messagePath(_ id: UUID) -> String { "/v1/messages/\(id.uuidString.lowercased())" }

    private func create(
        _ path: String,
        _ body: [UInt8],
        idempotencyKey: String,
        timeout: Duration? = nil
    ) async throws -> JSONValue {
        try await repeating {
            try await call(
                .post,
                path,
                body,
                contentType: "application/json",
                idempotencyKey: idempotencyKey,
                timeout: timeout
            )
        }
    }

    private func pages(
        _ path: String,
        _ filters: [Filter],
        limit: Int,
        itemsAPage: Int,
        _ body: ([JSONValue]) throws -> Void
    ) async throws {
        var rest = limit
        var cursor: String?
        repeat {
            var query = FormBody()
            for (name, value) in filters + [("limit", String(min(rest, itemsAPage))), ("cursor", cursor)] {
                if let value { query.append(name, value) }
            }
            let page = try await call(.get, "\(path)?\(String(decoding: query.bytes, as: UTF8.self))")
            let items = page["items"]?.array ?? []
            try body(items)
            rest -= items.count
            cursor = page["next"]?.string
        } while cursor != nil && rest > 0
    }

    /// Makes a call, and retries it a few times while the server does not respond or is unavailable.
    ///
    /// - Parameter call: An idempotent call.
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

    /// Makes a call and returns the response's JSON; `null` for an empty response.
    private func call(
        _ method: HTTPRequest.Method,
        _ path: String,
        _ body: [UInt8] = [],
        contentType: String? = nil,
        idempotencyKey: String? = nil,
        timeout: Duration? = nil
    ) async throws -> JSONValue {
        let answer = try await send(
            method,
            path,
            body,
            contentType: contentType,
            idempotencyKey: idempotencyKey,
            timeout: timeout
        )
        guard !answer.isEmpty else { return .null }
        guard let json = try? JSONValue(parsing: answer) else { throw notJSON }
        return json
    }

    /// Makes a call and returns the response's body.
    private func send(
        _ method: HTTPRequest.Method,
        _ path: String,
        _ body: [UInt8] = [],
        contentType: String? = nil,
        idempotencyKey: String? = nil,
        timeout: Duration? = nil
    ) async throws -> [UInt8] {
        var request = request(method, path, body, timeout: timeout)
        request.headerFields[.contentType] = contentType
        if let name = HTTPField.Name("Idempotency-Key") { request.headerFields[name] = idempotencyKey }
        let response: HTTPClientResponse
        do {
            response = try await http.send(request)
        } catch {
            throw CallFailure(error, url)
        }
        guard (200...299).contains(response.status) else { throw CallFailure(response.status, response.body, url) }
        return response.body
    }

    private func request(
        _ method: HTTPRequest.Method,
        _ path: String,
        _ body: [UInt8] = [],
        timeout: Duration? = nil
    ) -> HTTPClientRequest {
        var request = HTTPClientRequest(method: method, url: url + path, body: body, totalTimeout: timeout)
        request.headerFields[.authorization] = "Bearer \(key)"
        return request
    }
}

/// A failed call.
struct CallFailure: Error, CustomStringConvertible {
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
}

extension CallFailure {
    /// - Parameter url: The server's URL, for messages.
    fileprivate init(_ error: HTTPClientError, _ url: String) {
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
            description = "--url or SERVER_URL must be a URL such as http://127.0.0.1:8080: \(error.message)."
        case .responseTooLarge, .badResponse, .canceled, .expired, .overloaded, .shutDown,
            .uploadFailed,
            .internalFailure:
            kind = .refused
            description = "\(error.message)."
        }
    }

    fileprivate init(_ status: Int, _ body: [UInt8], _ url: String) {
        kind = (502...504).contains(status) ? .unavailable : .refused
        let detail = (try? JSONValue(parsing: body))?["detail"]?.string
        let problem = detail.map(Text.printable) ?? "\(url) responded with \(status). Is it a push-server?"
        // A server with a port for operators offers none of their paths at the other one.
        let isUnknownPath = status == 404 && detail == "There is nothing at this path."
        description = isUnknownPath ? "\(problem) If \(url) is not the server's http.operator_port, use that." : problem
    }
}
