import Endpoints
import FoundationEssentials
import HTTPServer
import HTTPTypes
import JSON
import KakaoAPI
import Postgres
import Runtime
import Schemas

/// `/v1/channels/customer-uploads`: uploads of any number of users to a customer file, which the server sends to Kakao in parts.
struct CustomerUploadRoutes: RouteCollection {
    static let title = "Customers of KakaoTalk channels"
    static let operations = [creating, listing, showing, canceling]

    /// The bytes of rows that are sent to PostgreSQL together.
    private static let bytesPerWrite = 64 * 1024

    let store: CustomerUploadStore
    let uploads: ConcurrencyLimit
    let notices: CustomerNotices

    // MARK: Creating

    private static let channel = Field.required("channel_public_id", .text(1...64), "The channel, as in its address.")
    private static let file = Field.required(
        "file_id",
        Kind<Int64>.integer(1...Int64.max),
        "The customer file, as Kakao numbers it."
    )
    private static let type = Field.required(
        "user_type",
        Kind<CustomerType>.choice,
        "How the users are named: `app` by user ids, `phone` by phone numbers."
    )
    private static let action = Field.optional(
        "action",
        Kind<CustomerUpload.Action>.choice,
        default: .update,
        shown: "update",
        "Whether the users are added to the file, or their fields replaced, or whether they are deleted from it."
    )

    private static let creating = Operation(
        OperationDeclaration(
            "createCustomerUpload",
            .post,
            "/v1/channels/customer-uploads",
            .operator(.talk),
            "Uploads users of any number for a customer file. The server sends them to Kakao, 2,000 at a time.",
            query: [channel, file, type, action],
            body: .media(
                [TransferFormat.ndjson.contentType, "text/plain"],
                "One user a line: a JSON object with `id` and `field`, or an id."
            ),
            answers: [.json(.accepted, CustomerUpload.shape, "The upload, which is being sent.")],
            problems: [.invalidLines, .noCustomers, .tooManyUploads],
            auditing: .handler
        ),
        streaming: create
    )

    /// Stores an upload. Responds with 202 once all users are stored.
    @Sendable private func create(_ call: Call, _ body: RequestBody) async throws -> Response {
        let upload = CustomerUpload(
            id: .v7(),
            channelPublicID: try call[Self.channel],
            fileID: try call[Self.file],
            type: try call[Self.type],
            action: try call[Self.action],
            createdBy: call.caller.key?.name,
            createdAt: Date().asStored
        )
        try uploads.acquireUpload("at most \(uploads.count) concurrent uploads")
        defer { uploads.release() }
        // Also if the response to the commit is lost.
        defer { notices.servers.send() }
        let record = call.auditRecord(of: .object(upload.id.lowercased))
        let stored = try await store.create(upload, recording: record) { try await Self.copy(body, of: upload, to: $0) }
        return .json(CustomerUpload.shape.json(stored), status: .accepted)
    }

    /// Sends the users in the body to PostgreSQL.
    ///
    /// - Throws: ``Problem`` 400 for lines that are no users, and for a body without any.
    private static func copy(
        _ body: RequestBody,
        of upload: CustomerUpload,
        to writer: PostgresCopyWriter
    ) async throws {
        var lines = CustomerLines(upload.type)
        var customers: [Customer] = []
        var rows = CustomerRows(of: upload)
        for try await piece in body {
            lines.read(piece, &customers)
            if lines.isHopeless { break }
            // After the first bad line, no more users are sent.
            if lines.badLines.isEmpty { try rows.append(customers) }
            customers.removeAll(keepingCapacity: true)
            if rows.byteCount >= bytesPerWrite { try await writer.write(rows.drain()) }
        }
        if !lines.isHopeless { lines.end(&customers) }
        guard lines.badLines.isEmpty else { throw lines.problem }
        try rows.append(customers)
        guard !rows.isEmpty else {
            throw Problem(of: .noCustomers, "The body contains no user. An upload needs at least one.")
        }
        try rows.end()
        try await writer.write(rows.drain())
    }

    // MARK: Showing

    private static let id = Field.path("id", .uuid, "The id of the upload.")

    private static let listing = Operation(
        "listCustomerUploads",
        .get,
        "/v1/channels/customer-uploads",
        .operatorWithAny([.talk, .operate]),
        "Lists the uploads for customer files, the latest first.",
        query: Page<UUID>.fields,
        answers: [.page(of: CustomerUpload.shape, "The uploads.")],
        handler: list
    )

    @Sendable private func list(_ call: Call) async throws -> Response {
        let page = try Page<UUID>(call)
        let list = ListCustomerUploads(before: page.cursor, limit: Int64(page.limit + 1))
        return page.response(
            try await store.pool.read(list, mayBeBehind: true),
            CustomerUpload.shape,
            cursor: \.id
        )
    }

    private static let showing = Operation(
        "getCustomerUpload",
        .get,
        "/v1/channels/customer-uploads/{id}",
        .operatorWithAny([.talk, .operate]),
        "Returns an upload with the number of its users that Kakao has accepted.",
        path: [id],
        answers: [.json(.ok, CustomerUpload.shape, "The upload.")],
        problems: [.notFound],
        handler: show
    )

    @Sendable private func show(_ call: Call) async throws -> Response {
        .json(CustomerUpload.shape.json(try await upload(call)))
    }

    // MARK: Canceling

    private static let canceling = Operation(
        "cancelCustomerUpload",
        .post,
        "/v1/channels/customer-uploads/{id}/cancel",
        .operatorWithAny([.talk, .operate]),
        "Ends an upload, and deletes its users that were not sent. Those that were sent stay in the file.",
        path: [id],
        answers: [.json(.ok, CustomerUpload.shape, "The upload.")],
        problems: [.notFound, .uploadEnded],
        auditing: .handler,
        handler: cancel
    )

    @Sendable private func cancel(_ call: Call) async throws -> Response {
        let id = try call.identifier(Self.id, orThrow: Self.notFound)
        let isCanceled = try await store.cancel(id, recording: call.auditRecord(of: .object(id.lowercased)))
        let upload = try await upload(call)
        // A repetition of a request whose response was lost has no further effect.
        guard isCanceled || upload.state == .canceled else {
            throw Problem(of: .uploadEnded, "Cannot cancel an upload in state `\(upload.state.rawValue)`.")
        }
        return .json(CustomerUpload.shape.json(upload))
    }

    private func upload(_ call: Call) async throws -> CustomerUpload {
        let id = try call.identifier(Self.id, orThrow: Self.notFound)
        guard let upload = try await store.pool.read(ReadCustomerUpload(id: id)).first else { throw Self.notFound }
        return upload
    }

    private static var notFound: Problem { Problem(of: .notFound, "There is no such upload.") }
}

extension ProblemKind {
    fileprivate static let noCustomers = ProblemKind(.badRequest, "no-customers", "The upload has no user.")
    fileprivate static let uploadEnded = ProblemKind(.conflict, "upload-ended", "The upload has ended.")
}
