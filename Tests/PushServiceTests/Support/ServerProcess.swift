import HTTPClient
import KakaoSandbox
import TestSupport
import Testing

/// `push-server` as a process of its own, with nothing but environment variables.
extension RunningProgram {
    /// Starts it.
    ///
    /// - Parameters:
    ///   - command: What comes after the program's name.
    ///   - descriptors: `ulimit -n`; `nil` for what the tests have.
    static func start(
        _ command: [String] = ["serve"],
        environment: [String: String],
        descriptors: Int? = nil
    ) async throws -> RunningProgram {
        try await start("push-server", command, environment: environment, descriptors: descriptors)
    }

    /// Waits until it listens, and returns the address.
    func address() async throws -> String {
        let name = "address="
        var address: Substring?
        try await eventually("the server listens: \(lines)") {
            address = lines.first { $0.contains("Listening") }?.split(separator: " ").first { $0.hasPrefix(name) }
            return address != nil
        }
        return String(address?.dropFirst(name.count) ?? "")
    }

    /// Waits until it can do its work, and returns its URL.
    func url() async throws -> String {
        let url = "http://\(try await address())"
        try await eventually("the server is ready: \(lines)") {
            try await Caller(url: url).get("/readyz").status == 200
        }
        return url
    }

    /// Runs `body` with it, and sees to it that it is gone afterwards.
    static func with(
        environment: [String: String],
        descriptors: Int? = nil,
        _ body: (RunningProgram, Caller) async throws -> Void
    ) async throws {
        let process = try await start(environment: environment, descriptors: descriptors)
        try await process.whileRunning { try await body(process, Caller(url: process.url())) }
    }

    /// The variables of a server, by the names in the design's table of settings.
    static func environment(_ database: TestDatabase, _ kakao: TestKakao) -> [String: String] {
        [
            "DATABASE_URL": database.url,
            "OPERATOR_KEY": Keys.operator,
            "KAKAO_ADMIN_KEY": Keys.admin,
            "KAKAO_API_URL": kakao.sandbox.url,
            "FEEDBACK_SECRET": Keys.feedback,
            "HTTP_PORT": "0",
            "LOG_LEVEL": "trace",
        ]
    }
}
