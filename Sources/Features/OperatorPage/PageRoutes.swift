import Endpoints
import HTTPServer
import HTTPTypes
import Identity
import Schemas

/// `/ui/`: the operator's page. Its files are constant; all data come from the API.
struct PageRoutes: RouteCollection {
    static let title = "Operator's page"
    static let operations = [redirecting, showing, showingFile, showingFolder]

    let isEnabled: Bool
    let files: PageFiles
    /// Whether the page shows what a sandbox can do.
    let hasSandbox: Bool

    private static let enabled = NeededSetting<PageRoutes>("page.enabled") { $0.isEnabled }

    private static let html = Answer.media(.ok, ["text/html"], "The page.", headers: [.policy, .entityTag])

    private static let showing = Operation<PageRoutes>(
        OperationDeclaration(
            "getPage",
            .get,
            "/ui/",
            .operatorPort(.constantCost),
            "Shows the page of operators, for a browser.",
            unknownFields: .kept,
            answers: [html, .notModified],
            problems: [.insecurePage, .notConfigured]
        ),
        needs: enabled,
        immediate: showIndex
    )

    private static let redirecting = Operation<PageRoutes>(
        OperationDeclaration(
            "redirectToPage",
            .get,
            "/ui",
            .operatorPort(.constantCost),
            "Leads to the page, whose addresses begin with `/ui/`.",
            unknownFields: .kept,
            answers: [.empty(.found, "The address of the page.", headers: [.location])]
        ),
        immediate: { _ in { _ in Response(.found, headerFields: [.location: "/ui/"]) } }
    )

    private static let version = Field.path("version", .text, "The version of the files, as the page names it.")
    private static let name = Field.path("name", .text, "The name of the file, or of its folder.")
    private static let file = Field.path("file", .text, "The name of the file.")

    private static let showingFile = Operation<PageRoutes>(
        OperationDeclaration(
            "getPageFile",
            .get,
            "/ui/{version}/{name}",
            .operatorPort(.constantCost),
            "Returns a file of the page.",
            path: [version, name],
            unknownFields: .kept,
            answers: [contents],
            problems: [.notFound, .insecurePage, .notConfigured]
        ),
        needs: enabled,
        immediate: { routes in { try routes.file($0, try $0[name]) } }
    )

    private static let showingFolder = Operation<PageRoutes>(
        OperationDeclaration(
            "getPageFileInFolder",
            .get,
            "/ui/{version}/{name}/{file}",
            .operatorPort(.constantCost),
            "Returns a file of the page in one of its folders.",
            path: [version, name, file],
            unknownFields: .kept,
            answers: [contents],
            problems: [.notFound, .insecurePage, .notConfigured]
        ),
        needs: enabled,
        immediate: { routes in { try routes.file($0, "\(try $0[name])/\(try $0[file])") } }
    )

    private static let contents = Answer.media(
        .ok,
        ["text/javascript", "text/css", "image/svg+xml"],
        "The file."
    )
    .or(["application/json"], schema: .any)

    @Sendable private func showIndex(_ call: Call) throws -> Response {
        try PageOrigin.checkPlace(call.request)
        let entityTag = "\"\(files.version)\(hasSandbox ? "-sandbox" : "")\""
        let page = hasSandbox ? files.indexWithSandbox : files.index
        var response =
            call.request.names(entityTag)
            ? Response(.notModified) : Self.response(Array(page.utf8), type: "text/html; charset=utf-8")
        response.headerFields[.eTag] = entityTag
        response.headerFields[.cacheControl] = "no-cache"
        return response
    }

    private func file(_ call: Call, _ path: String) throws -> Response {
        try PageOrigin.checkPlace(call.request)
        // While servers are updated, a page of one version may ask a server of another.
        let isCurrent = try call[Self.version] == files.version
        guard let file = files.files[path] else { throw Problem(of: .notFound, "The page has no such file.") }
        var response = Self.response(file.bytes, type: file.type)
        response.headerFields[.cacheControl] = isCurrent ? "public, max-age=31536000, immutable" : "no-store"
        return response
    }

    private static func response(_ bytes: [UInt8], type: String) -> Response {
        var response = Response(.ok, body: bytes)
        response.headerFields[.contentType] = type
        for (name, value) in headers { response.headerFields[name] = value }
        return response
    }

    /// The page loads nothing from elsewhere, and runs no script that is not one of its files.
    private static let headers: [(HTTPField.Name, String)] = [
        (
            .contentSecurityPolicy,
            """
            default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; frame-src 'self'; \
            form-action 'self'; base-uri 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'
            """
        ),
        (.referrerPolicy, "no-referrer"), (.openerPolicy, "same-origin"),
        (.resourcePolicy, "same-origin"),
    ]
}

extension Answer.Header {
    fileprivate static let policy = Answer.Header(
        "Content-Security-Policy",
        "What the page may load: its own files only."
    )
    fileprivate static let entityTag = Answer.Header("ETag", "The version of the page.")
}

extension Answer {
    fileprivate static let notModified = Answer.empty(.notModified, "The page is the one that `If-None-Match` names.")
}

extension HTTPField.Name {
    fileprivate static let referrerPolicy = unvalidated("Referrer-Policy")
    fileprivate static let openerPolicy = unvalidated("Cross-Origin-Opener-Policy")
    fileprivate static let resourcePolicy = unvalidated("Cross-Origin-Resource-Policy")
}
