import Endpoints
import HTTPServer
import HTTPTypes
import Schemas

/// `GET /`: where a newcomer with `curl` finds everything else. A browser goes on to the page.
struct RootRoutes: RouteCollection {
    static let path = "/"
    private static let pagePath = "/ui/"

    /// Whether browsers find the page at the same port.
    let hasPage: Bool

    static let title = "Start"
    static let operations = [
        Operation<RootRoutes>(
            OperationDeclaration(
                "getStart",
                .get,
                path,
                .anyone(.constantCost),
                "Names the paths where everything else is found.",
                unknownFields: .kept,
                answers: [
                    .json(.ok, Start.shape, "The paths."),
                    .empty(
                        .found,
                        "The [page](page.md), for a browser: a client that accepts `text/html`.",
                        headers: [.location]
                    ),
                ]
            ),
            immediate: { routes in
                var start = Response.json(Start.shape.json(Start()))
                guard routes.hasPage else { return { [start] _ in start } }
                start.headerFields[.vary] = "Accept"
                let page = Response(.found, headerFields: [.location: pagePath, .vary: "Accept"])
                return { [start] in $0.request.acceptsHTML ? page : start }
            }
        )
    ]

    private struct Start: Sendable {
        static let shape = Shape<Start>(
            "Start",
            [
                .member("name", .text, "The program.") { _ in "kakao-push-server" },
                .member("page", .text, "The page for operators; at `http.operator_port`, if that is set.") { _ in
                    pagePath
                },
                .member("api", .text, "The beginning of the paths of the API.") { _ in "/v1" },
                .member(
                    "description",
                    .text,
                    "The OpenAPI document of all operations; at `http.operator_port`, if that is set."
                ) { _ in OpenAPIRoutes.path },
                .member("health", .text, "Whether the process is alive.") { _ in HealthRoutes.paths[0] },
                .member("readiness", .text, "Whether requests may be sent.") { _ in HealthRoutes.paths[1] },
                .member("documentation", .text, "The pages for people.") { _ in
                    "README.md and docs/ of the program's source"
                },
            ]
        )
    }
}
