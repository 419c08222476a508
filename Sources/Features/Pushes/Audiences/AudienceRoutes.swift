import Endpoints
import HTTPServer
import HTTPTypes
import JSON
import Postgres
import Schemas

/// `/v1/audiences`: named sets of users that operators upload, to send pushes to them.
struct AudienceRoutes: RouteCollection {
    static let title = "Audiences"
    static let operations = [replacing, listing, showing, deleting]

    /// The number of bytes that are sent to PostgreSQL at a time.
    private static let bytesPerWrite = 64 * 1024

    let store: AudienceStore
    let uploads: ConcurrencyLimit

    private static let name = Field.path("name", .audienceName, "The name of the audience.")

    // MARK: Replacing

    private static let replacing = Operation(
        OperationDeclaration(
            "putAudience",
            .put,
            "/v1/audiences/{name}",
            .operator(.send),
            "Replaces the users of an audience, of any number.",
            path: [name],
            body: .media(
                ["text/plain"],
                "One user id a line.",
                schema: .text(pattern: "^([1-9][0-9]{0,18}\r?\n)*[1-9][0-9]{0,18}(\r?\n)?$")
            ),
            answers: [
                .json(.ok, Audience.shape, "The audience, which was known."),
                .json(.created, Audience.shape, "The audience, which is new."),
            ],
            problems: [.invalidLines, .emptyAudience, .tooManyUploads],
            auditing: .handler
        ),
        streaming: replace
    )

    /// Replaces an audience with the users in the body, one a line. Responds with 200, or with 201 for a new audience,
    /// once all users are stored.
    @Sendable private func replace(_ call: Call, _ body: RequestBody) async throws -> Response {
        let name = try call[Self.name]
        try uploads.acquireUpload("at most \(uploads.count) concurrent uploads")
        defer { uploads.release() }
        let record = call.auditRecord(of: .object(name.text))
        let (audience, isNew) = try await store.replace(name, recording: record) { try await Self.copy(body, to: $0) }
        return .json(Audience.shape.json(audience), status: isNew ? .created : .ok)
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
                _ = rows.drain()
            } else if rows.bytes.count >= bytesPerWrite {
                try await writer.write(rows.drain())
            }
        }
        if !lines.isHopeless { lines.end { rows.append($0) } }
        guard lines.badLines.isEmpty else { throw badLines(lines.badLines) }
        guard rows.count > 0 else {
            throw Problem(of: .emptyAudience, "The body contains no user id. An audience needs at least one.")
        }
        rows.appendTrailer()
        try await writer.write(rows.drain())
    }

    private static func badLines(_ numbers: [Int]) -> Problem {
        let list = numbers.map(String.init).joined(separator: ", ")
        return Problem(
            of: .invalidLines,
            "Nothing was changed. The first invalid lines: \(list). Each line must be \(UserIDLines.allowed).",
            members: [
                "lines": .array(numbers.map { JSONValue.number(JSONNumber($0)) }),
                "allowed": .string(UserIDLines.allowed),
            ]
        )
    }

    // MARK: Showing

    private static let listing = Operation(
        "listAudiences",
        .get,
        "/v1/audiences",
        .operator(.read),
        "Lists the stored audiences.",
        query: Page<AudienceName>.fields,
        answers: [.page(of: Audience.shape, "The audiences, by their names.")],
        handler: list
    )

    @Sendable private func list(_ call: Call) async throws -> Response {
        let page = try Page<AudienceName>(call)
        let audiences = try await store.list(after: page.cursor, limit: page.limit + 1)
        return page.response(audiences, Audience.shape, cursor: \.name)
    }

    private static let showing = Operation(
        "getAudience",
        .get,
        "/v1/audiences/{name}",
        .operator(.read),
        "Returns an audience, without its users.",
        path: [name],
        answers: [.json(.ok, Audience.shape, "The audience.")],
        problems: [.notFound],
        handler: show
    )

    @Sendable private func show(_ call: Call) async throws -> Response {
        guard let audience = try await store.audience(Self.name(call)) else { throw Self.notFound }
        return .json(Audience.shape.json(audience))
    }

    private static let deleting = Operation(
        "deleteAudience",
        .delete,
        "/v1/audiences/{name}",
        .operator(.send),
        "Deletes an audience. Pushes that were created with it keep their users.",
        path: [name],
        answers: [.empty(.noContent, "The audience is deleted.")],
        problems: [.notFound],
        auditing: .handler,
        handler: delete
    )

    @Sendable private func delete(_ call: Call) async throws -> Response {
        let name = try Self.name(call)
        guard try await store.delete(name, recording: call.auditRecord(of: .object(name.text))) else {
            throw Self.notFound
        }
        return Response(.noContent)
    }

    /// Returns the name in the path. An invalid name throws 404, since no audience can have it.
    private static func name(_ call: Call) throws -> AudienceName {
        try call.identifier(name, orThrow: notFound)
    }

    private static var notFound: Problem { Problem(of: .notFound, "There is no such audience.") }
}

extension ProblemKind {
    fileprivate static let emptyAudience = ProblemKind(.badRequest, "empty-audience", "The upload has no user id.")
}

extension Kind where Value == AudienceName {
    static var audienceName: Kind {
        Kind(
            text: AudienceName.schema,
            allowed: AudienceName.allowed,
            parse: { AudienceName($0) },
            format: \.text
        )
    }
}
