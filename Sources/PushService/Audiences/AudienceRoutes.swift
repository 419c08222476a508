internal import HTTPServer
internal import HTTPTypes
internal import JSON
internal import Postgres

/// `/v1/audiences`: named sets of users that operators upload, to send pushes to them.
struct AudienceRoutes: Sendable {
    /// The maximum number of concurrent uploads to a server. Each uses a connection to PostgreSQL, which sorts the
    /// uploaded users.
    static let maximumUploads = 2
    /// The number of bytes that are sent to PostgreSQL at a time.
    private static let bytesAtATime = 64 * 1024

    let store: AudienceStore
    let uploads: UploadLimit

    func add(to router: inout ServiceRouter) {
        router.on(.put, "/v1/audiences/{name}", .operator(.send), streaming: replace)
        router.on(.get, "/v1/audiences", .operator(.read), list)
        router.on(.get, "/v1/audiences/{name}", .operator(.read), show)
        router.on(.delete, "/v1/audiences/{name}", .operator(.send), delete)
    }

    /// Replaces an audience with the users in the body, one a line. Responds with 200, or with 201 for a new audience,
    /// once all users are stored.
    private func replace(_ request: Request, _ body: RequestBody) async throws -> Response {
        guard let name = AudienceName(request.pathParameter("name")) else {
            throw Problem.field("name", AudienceName.allowed)
        }
        guard request.contentType == "text/plain" else {
            throw Problem(.unsupportedMediaType, "Unsupported Content-Type. Allowed: text/plain, one user id a line.")
        }
        guard uploads.take() else {
            throw Problem(
                .serviceUnavailable,
                kind: "too-many-uploads",
                "This server accepts at most \(Self.maximumUploads) concurrent uploads. Try again.",
                headerFields: [.retryAfter: "30"]
            )
        }
        defer { uploads.release() }
        let (audience, isNew) = try await store.replace(name) { try await Self.copy(body, to: $0) }
        return Self.response(audience, status: isNew ? .created : .ok)
    }

    /// Sends the users in the body to PostgreSQL.
    ///
    /// - Throws: ``Problem`` 400 for lines that are not user ids, and for a body without any.
    private static func copy(_ body: RequestBody, to writer: PostgresCopyWriter) async throws {
        var lines = UserIDLines()
        var rows = UserIDRows()
        for try await piece in body {
            lines.read(piece) { rows.append($0) }
            if lines.isHopeless { break }
            // After the first bad line, no more rows are sent.
            if !lines.badLines.isEmpty {
                _ = rows.take()
            } else if rows.bytes.count >= bytesAtATime {
                try await writer.write(rows.take())
            }
        }
        if !lines.isHopeless { lines.end { rows.append($0) } }
        guard lines.badLines.isEmpty else { throw badLines(lines.badLines) }
        guard rows.count > 0 else {
            throw Problem(
                .badRequest,
                kind: "empty-audience",
                "The body contains no user id. An audience needs at least one."
            )
        }
        rows.end()
        try await writer.write(rows.take())
    }

    private static func badLines(_ numbers: [Int]) -> Problem {
        let list = numbers.map(String.init).joined(separator: ", ")
        return Problem(
            .badRequest,
            kind: "invalid-lines",
            "Nothing was changed. The first invalid lines: \(list). Each line must be \(UserIDLines.allowed).",
            members: [
                "lines": .array(numbers.map { JSONValue.number(JSONNumber($0)) }),
                "allowed": .string(UserIDLines.allowed),
            ]
        )
    }

    private func list(_ request: Request) async throws -> Response {
        let page = try Page<AudienceName>(Parameters(request))
        let audiences = try await store.list(after: page.cursor, limit: page.limit + 1)
        return page.response(audiences, cursor: \.name) { Self.write($0, to: &$1) }
    }

    private func show(_ request: Request) async throws -> Response {
        guard let audience = try await store.audience(Self.name(request)) else { throw Self.notFound }
        return Self.response(audience, status: .ok)
    }

    private func delete(_ request: Request) async throws -> Response {
        guard try await store.delete(Self.name(request)) else { throw Self.notFound }
        return Response(.noContent)
    }

    /// Returns the name in the path. An invalid name throws 404, since no audience can have it.
    private static func name(_ request: Request) throws -> AudienceName {
        guard let name = AudienceName(request.pathParameter("name")) else { throw notFound }
        return name
    }

    private static var notFound: Problem { Problem(.notFound, "There is no such audience.") }

    private static func response(_ audience: Audience, status: HTTPResponse.Status) -> Response {
        var json = JSONWriter()
        json.object { write(audience, to: &$0) }
        return .json(json.bytes, status: status)
    }

    private static func write(_ audience: Audience, to json: inout JSONWriter.Members) {
        json.member("name", audience.name.text)
        json.member("users", audience.users)
        json.member("updated_at", audience.updatedAt.rfc3339)
    }
}
