import HTTPClient
import KakaoSandbox
package import TestSupport
import Testing

/// `push-server` as a separate process, configured only by environment variables.
extension RunningProgram {
    /// Starts `push-server`.
    ///
    /// - Parameters:
    ///   - command: The arguments.
    ///   - environment: The environment variables.
    ///   - limit: The arguments of `ulimit`; `nil` for the limits of the tests.
    package static func start(
        _ command: [String] = ["serve"],
        environment: [String: String],
        limit: String? = nil
    ) async throws -> RunningProgram {
        try await start("push-server", command, environment: environment, limit: limit)
    }

    /// Waits until the server listens, and returns its address.
    package func address() async throws -> String {
        let name = "address="
        var address: Substring?
        try await eventually("the server listens: \(lines)") {
            address = lines.first { $0.contains("Listening") }?.split(separator: " ").first { $0.hasPrefix(name) }
            return address != nil
        }
        return String(address?.dropFirst(name.count) ?? "")
    }

    /// Waits until the server is ready, and returns its URL.
    package func url() async throws -> String {
        let url = "http://\(try await address())"
        try await eventually("the server is ready: \(lines)") {
            try await TestClient(url: url).get("/readyz").status == 200
        }
        return url
    }

    /// Runs `body` with a server process, which has ended afterwards.
    package static func with(
        environment: [String: String],
        limit: String? = nil,
        _ body: (RunningProgram, TestClient) async throws -> Void
    ) async throws {
        let process = try await start(environment: environment, limit: limit)
        try await process.whileRunning { try await body(process, TestClient(url: process.url())) }
    }

    /// Returns the environment variables of a server.
    package static func environment(_ database: TestDatabase, _ kakao: TestKakao) -> [String: String] {
        [
            "DATABASE_URL": database.url,
            "OPERATOR_KEY": Keys.operator,
            "KAKAO_ADMIN_KEY": Keys.admin,
            "KAKAO_API_URL": kakao.sandbox.url,
            "KAKAO_SOURCE_ADDRESSES": "off",
            "FEEDBACK_SECRET": Keys.feedback,
            "HTTP_PORT": "0",
            "HTTP_DRAIN_SECONDS": "0",
            "LOG_LEVEL": "trace",
        ]
    }
}
