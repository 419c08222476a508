internal import HTTPServer
internal import HTTPTypes

/// `/healthz`: the process is alive. `/readyz`: requests may be sent here, or what is missing.
struct HealthRoutes: Sendable {
    static let quietPaths = ["/healthz", "/readyz"]

    let readiness: Readiness

    func add(to router: inout ServiceRouter) {
        let alive = Response.text("ok")
        router.on(.get, "/healthz", .anyone, immediate: { _ in alive })
        router.on(.get, "/readyz", .anyone) { [readiness] _ in await readiness.response() }
    }
}
