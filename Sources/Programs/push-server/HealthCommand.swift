import ArgumentParser
import EventLoop
import HTTPClient
import HTTPTypes
import Server

struct HealthCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "health",
        abstract: "Check that a running server is alive: exit code 0 if it is.",
        discussion: "For a container's HEALTHCHECK, which then needs neither a shell nor curl."
    )

    @Option(help: "The URL to request. (default: /healthz of the server that serve runs with the same settings)")
    var url: String?

    @OptionGroup var options: SettingsOptions

    @concurrent
    func run() async throws {
        try await reportingFailures {
            let url = try self.url ?? "\(options.load().localURL)/healthz"
            let loops = try EventLoopGroup(count: 1)
            defer { loops.shutdown() }
            var settings = HTTPClientSettings()
            // The server's own certificate is for its public name, not for this address. The request contains no
            // secret.
            if self.url == nil { settings.trust = nil }
            let client = HTTPClient(settings: settings, loop: loops.loops[0])
            let response = try await client.send(HTTPClientRequest(method: .get, url: url))
            await client.shutdown()
            guard response.status == 200 else {
                print("Unhealthy: the response has status \(response.status).")
                throw ExitCode.failure
            }
        }
    }
}
