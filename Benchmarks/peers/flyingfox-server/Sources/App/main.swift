// The two routes of `scripts/bench http`, implemented with FlyingFox.

import FlyingFox
import Foundation

/// The body of a registration, which is also its response.
struct Registration: Codable {
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
    guard let port = CommandLine.arguments.dropFirst().first.flatMap(UInt16.init) else { fatalError("usage: App PORT") }
    let server = HTTPServer(address: try .inet(ip4: "127.0.0.1", port: port), logger: .disabled)
    await server.appendRoute("GET /healthz") { _ in
        HTTPResponse(statusCode: .ok, headers: [.contentType: "text/plain"], body: Data("ok".utf8))
    }
    await server.appendRoute("POST /v1/devices") { request in
        let registration = try JSONDecoder().decode(Registration.self, from: await request.bodyData)
        return HTTPResponse(
            statusCode: .ok,
            headers: [.contentType: "application/json"],
            body: try JSONEncoder().encode(registration)
        )
    }
    try await server.run()
}

try await serve()
