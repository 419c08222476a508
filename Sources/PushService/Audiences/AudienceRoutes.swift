internal import HTTPServer
internal import HTTPTypes
internal import JSON
internal import Postgres

/// `/v1/audiences`: operators upload users under a name, for pushes to go to.
struct AudienceRoutes: Sendable {
    /// Uploads that a server takes at a time: each has a connection to PostgreSQL, which sorts what it has taken.
    static let maximumUploads = 2
    /// So many bytes go to PostgreSQL at a time.
    private static let bytesAtATime = 64 * 1024

    let store: AudienceStore
    let uploads: UploadLimit

    func add(to router: inout ServiceRouter) {
        router.on(.put, "/v1/audiences/{name}", .operator(.send), streaming: replace)
        router.on(.get, "/v1/audiences", .operator(.read), list)
        router.on(.get, "/v1/audiences/{name}", .operator(.read), show)
        router.on(.delete, "/v1/audiences/{name}", .operator(.send), delete)
    }

    /// Takes users, one a line: 200 once all of them have taken the place of the former ones, 201 when there were none.
    private func replace(_ request: Request, _ body: RequestBody) async throws -> Response {
        guard let name = AudienceName(request.pathParameter("name")) else {
            throw Problem.field("name", AudienceName.allowed)
        }
        guard request.contentType == "text/plain" else {
            throw Problem(.unsupportedMediaType, "The body must be text/plain, as Content-Type says: a user id a line.")
        }
        guard uploads.take() else {
            throw Problem(
                .serviceUnavailable,
                kind: "too-many-uploads",
                "This server takes \(Self.maximumUploads) uploads at a time. Try again.",
                headerFields: [.retryAfter: "30"]
            )
        }
        defer { uploads.release() }
        let (audience, isNew) = try await store.replace(name) { try await Self.copy(body, to: $0) }
        return Self.response(audience, status: isNew ? .created : .ok)
    }

    /// - Throws: ``Problem`` 400 for lines that are no user ids, and when there is none at all.
    private static func copy(_ body: RequestBody, to writer: PostgresCopyWriter) async throws {
        var lines = UserIDLines()
        var rows = UserIDRows()
        for try await piece in body {
            lines.read(piece) { rows.append($0) }
            if lines.isHopeless { break }
            // Nothing is kept once a line is bad.
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
                "The body holds no user id: an audience has one at least."
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
            "Nothing was changed. The first lines that are wrong: \(list). A line must be \(UserIDLines.allowed).",
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

    /// The name in the path; nothing can be there under one that is none.
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
