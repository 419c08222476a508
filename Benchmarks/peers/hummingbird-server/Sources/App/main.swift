// The two routes of `scripts/bench http`, implemented with Hummingbird 2.

import Hummingbird
import Logging

/// The body of a registration, which is also its response.
struct Registration: ResponseCodable {
    let userID: Int64
    let deviceID: String
    let pushType: String
    let pushToken: String
    let locale: String?
    let timezone: String?
    let appVersion: String?
    let tags: [String]

    enum CodingKeys: String, CodingKey {
        case userID = "user_id"
        case deviceID = "device_id"
        case pushType = "push_type"
        case pushToken = "push_token"
        case locale, timezone
        case appVersion = "app_version"
        case tags
    }
}

/// Serves on the port given as the only argument.
///
/// Nonisolated, since handlers that are created at the top level of a script run on the main actor, one at a time.
nonisolated func serve() async throws {
    guard let port = CommandLine.arguments.dropFirst().first.flatMap(Int.init) else { fatalError("usage: App PORT") }
    let router = Router()
    router.get("/healthz") { _, _ in "ok" }
    router.post("/v1/devices") { request, context in
        try await request.decode(as: Registration.self, context: context)
    }
    var logger = Logger(label: "hummingbird")
    logger.logLevel = .critical
    let application = Application(
        router: router,
        configuration: ApplicationConfiguration(address: .hostname("127.0.0.1", port: port)),
        logger: logger
    )
    try await application.runService()
}

try await serve()
