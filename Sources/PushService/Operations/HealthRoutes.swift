internal import HTTPServer
internal import HTTPTypes
internal import JSON
internal import Postgres

/// `/healthz`: the process is alive. `/readyz`: it can do its work, or which part of it cannot.
struct HealthRoutes: Sendable {
    static let quietPaths = ["/healthz", "/readyz"]

    let pool: PostgresPool
    let migrator: Migrator
    let standing: KakaoStanding
    let gate: StartupGate

    func add(to router: inout Router) {
        let alive = Response.text("ok")
        router.add(.get, "/healthz", .immediate { _ in alive })
        router.on(.get, "/readyz", ready)
    }

    private func ready(_: Request) async -> Response {
        let database = await databaseFault()
        let sender = standing.refusalReason
        let isReady = database == nil && sender == nil
        var json = JSONWriter()
        json.object { json in
            json.member("ready", isReady)
            json.object("checks") { json in
                json.member("database", database ?? "ok")
                json.member("sender", sender ?? "ok")
            }
        }
        var response = Response.json(json.bytes, status: isReady ? .ok : .serviceUnavailable)
        if !isReady { response.headerFields[.retryAfter] = "1" }
        return response
    }

    /// A round trip, and whether every migration has run.
    private func databaseFault() async -> String? {
        do {
            let pending = try await migrator.pending(pool)
            guard pending.isEmpty else { return "\(pending.count) migrations have not run: push-server migrate" }
            return gate.isOpen ? nil : "The server is starting."
        } catch {
            return "\(error)"
        }
    }
}
