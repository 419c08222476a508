internal import ArgumentParser
internal import EventLoop
internal import HTTPClient
internal import HTTPTypes
internal import PushService

struct HealthCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "health",
        abstract: "Ask a running server whether it is alive: exit code 0 if it is.",
        discussion: "For a container's HEALTHCHECK, which needs no shell and no curl that way."
    )

    @Option(help: "What to ask. (default: /healthz of the server that serve runs with the same settings)")
    var url: String?

    @OptionGroup var options: SettingsOptions

    @concurrent
    func run() async throws {
        try await reportingFailures {
            let url = try self.url ?? "\(options.load().localURL)/healthz"
            let loops = try EventLoopGroup(count: 1)
            defer { loops.shutdown() }
            var settings = HTTPClientSettings()
            // The server's own certificate is for its public name. Nothing is sent that others may not see.
            settings.verifiesServer = self.url != nil
            let client = try HTTPClient(settings: settings, loop: loops.loops[0])
            let response = try await client.send(HTTPClientRequest(method: .get, url: url))
            await client.shutdown()
            guard response.status == 200 else {
                print("answered \(response.status)")
                throw ExitCode.failure
            }
        }
    }
}
