import Endpoints
import HTTPServer
import HTTPTypes
import Schemas

/// `GET /`: where a newcomer with a browser or `curl` finds everything else.
struct RootRoutes: RouteCollection {
    static let path = "/"

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
                answers: [.json(.ok, Start.shape, "The paths.")]
            ),
            immediate: { _ in
                let start = Response.json(Start.shape.json(Start()))
                return { _ in start }
            }
        )
    ]

    private struct Start: Sendable {
        static let shape = Shape<Start>(
            "Start",
            [
                .member("name", .text, "The program.") { _ in "kakao-push-server" },
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
