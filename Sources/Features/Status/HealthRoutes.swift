import Endpoints
import HTTPServer
import HTTPTypes

/// `/healthz`, which responds while the process is alive, and `/readyz`, which shows whether requests may be sent to
/// this server.
struct HealthRoutes: RouteCollection {
    static let paths = ["/healthz", "/readyz"]

    static let title = "Health"
    static let operations = [showingHealth, showingReadiness]

    let readiness: Readiness

    private static let showingHealth = Operation<HealthRoutes>(
        OperationDeclaration(
            "getHealth",
            .get,
            "/healthz",
            .anyone(.constantCost),
            "Responds while the process is alive.",
            unknownFields: .kept,
            answers: [.media(.ok, ["text/plain"], "`ok`.")]
        ),
        immediate: { _ in
            let alive = Response.text("ok")
            return { _ in alive }
        }
    )

    private static let showingReadiness = Operation<HealthRoutes>(
        "getReadiness",
        .get,
        "/readyz",
        .anyone(.limited("The state is determined once a second on each event loop.")),
        "Shows whether requests may be sent to this server.",
        unknownFields: .kept,
        answers: [
            .json(.ok, Readiness.Report.shape, "Requests may be sent."),
            .json(.serviceUnavailable, Readiness.Report.shape, "No requests should be sent."),
        ],
        handler: { routes in { _ in await routes.readiness.response() } }
    )
}
