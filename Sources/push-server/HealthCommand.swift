internal import ArgumentParser
internal import EventLoop
internal import FoundationEssentials
internal import HTTPClient
internal import HTTPTypes

struct HealthCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "health",
        abstract: "Ask a running server whether it is alive: exit code 0 if it is.",
        discussion: "For a container's HEALTHCHECK, which needs no shell and no curl that way."
    )

    @Option(help: "What to ask. (default: /healthz of the server whose HTTP_PORT is in the environment)")
    var url: String?

    @concurrent
    func run() async throws {
        try await reportingFailures {
            let port = ProcessInfo.processInfo.environment["HTTP_PORT"] ?? "8080"
            let loops = try EventLoopGroup(count: 1)
            defer { loops.shutdown() }
            let client = try HTTPClient(loop: loops.loops[0])
            let request = HTTPClientRequest(method: .get, url: url ?? "http://127.0.0.1:\(port)/healthz")
            let response = try await client.send(request)
            await client.shutdown()
            guard response.status == 200 else {
                print("answered \(response.status)")
                throw ExitCode.failure
            }
        }
    }
}
