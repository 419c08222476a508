internal import HTTPServer
internal import HTTPTypes

/// `/healthz`, which responds while the process is alive, and `/readyz`, which shows whether requests may be sent to
/// this server.
struct HealthRoutes: Sendable {
    static let quietPaths = ["/healthz", "/readyz"]

    let readiness: Readiness

    func add(to router: inout ServiceRouter) {
        let alive = Response.text("ok")
        router.on(.get, "/healthz", .anyone, immediate: { _ in alive })
        router.on(.get, "/readyz", .anyone) { [readiness] _ in await readiness.response() }
    }
}
