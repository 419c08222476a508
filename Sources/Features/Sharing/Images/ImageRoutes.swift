import Endpoints
import FoundationEssentials
import HTTPServer
import HTTPTypes
import KakaoAPI
import Postgres
import Runtime
import Schemas

/// `/v1/images`: images that the server keeps for messages.
struct ImageRoutes: RouteCollection {
    static let title = "Images for messages"
    static let operations = [creating, listing, showing, deleting]

    let library: ImageLibrary
    let settings: ImageSettings
    /// The limit of concurrent uploads, whose files are in memory.
    let uploads: ConcurrencyLimit

    private static let id = Field.path("id", .uuid, "The id of the image.")

    // MARK: Creating

    private static let creating = Operation(
        OperationDeclaration(
            "createImage",
            .post,
            "/v1/images",
            .operator(.sharing),
            "Stores an image by its content, and uploads it to Kakao unless Kakao has it.",
            body: .files(
                FileBody(
                    part: "file",
                    orBody: ImageHeader.Format.allCases.map(\.contentType) + ["application/octet-stream"],
                    "An image, as the body itself or as the file of a form. \(ImageHeader.allowed)"
                )
            ),
            answers: [
                .json(.created, StoredImage.shape, "The image, which is new.", headers: [.location]),
                .json(.ok, StoredImage.shape, "The image, whose content was stored already."),
            ],
            problems: [
                .invalidImage, .imagesFull, .notConfigured, .refusedByKakao, .kakaoUnavailable, .badGateway,
                .serverRefused,
                .notFound,
            ],
            auditing: .handler
        ),
        streaming: create
    )

    @Sendable private func create(_ call: Call, _ body: RequestBody) async throws -> Response {
        guard library.kakao.settings.app != nil else { throw Problem.appKeyCallsDisabled }
        // The place is released before the upload to Kakao, which reads the image from the database.
        let (stored, isNew) = try await uploads.run(on: call.request.loop) {
            var call = call
            let files = try await call.files(in: body, settings.fileLimits)
            let complete = call
            return try await library.add(ImageHeader(files[0]), files[0].bytes) {
                complete.auditRecord(of: .object($0.lowercased))
            }
        }
        // It may have been deleted meanwhile.
        guard let image = try await library.fresh(stored.id) else { throw Self.notFound }
        var response = Response.json(StoredImage.shape.json(image), status: isNew ? .created : .ok)
        if isNew { response.headerFields[.location] = "/v1/images/\(image.id.lowercased)" }
        return response
    }

    // MARK: Showing

    private static let listing = Operation(
        "listImages",
        .get,
        "/v1/images",
        .operator(.sharing),
        "Lists the stored images, the latest first.",
        query: Page<UUID>.fields,
        answers: [.page(of: StoredImage.shape, "The images.")],
        handler: list
    )

    @Sendable private func list(_ call: Call) async throws -> Response {
        let page = try Page<UUID>(call)
        let list = ListImages(before: page.cursor, limit: page.limit + 1)
        let images = try await library.store.pool.read(list, mayBeBehind: true)
        return page.response(images, StoredImage.shape, cursor: \.id)
    }

    private static let showing = Operation(
        "getImage",
        .get,
        "/v1/images/{id}",
        .operator(.sharing),
        "Returns what is known of an image.",
        path: [id],
        answers: [.json(.ok, StoredImage.shape, "The image.")],
        problems: [.notFound],
        handler: show
    )

    @Sendable private func show(_ call: Call) async throws -> Response {
        guard let image = try await library.store.find(Self.id(call)) else { throw Self.notFound }
        return .json(StoredImage.shape.json(image))
    }

    // MARK: Deleting

    private static let deleting = Operation(
        "deleteImage",
        .delete,
        "/v1/images/{id}",
        .operator(.sharing),
        "Deletes an image here. Kakao keeps its copy until it expires, since delivered messages show it.",
        path: [id],
        answers: [.empty(.noContent, "The image is deleted.")],
        problems: [.notFound],
        auditing: .handler,
        handler: delete
    )

    @Sendable private func delete(_ call: Call) async throws -> Response {
        let id = try Self.id(call)
        let record = call.auditRecord(of: .object(id.lowercased))
        guard try await library.store.pool.write(DeleteKeptImage(id: id), recording: record) > 0 else {
            throw Self.notFound
        }
        return Response(.noContent)
    }

    private static func id(_ call: Call) throws -> UUID {
        try call.identifier(id, orThrow: notFound)
    }

    private static var notFound: Problem { Problem(of: .notFound, "There is no such image.") }
}
