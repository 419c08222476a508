import ArgumentParser
import EventLoop
import FoundationEssentials
import HTTPClient
import HTTPTypes
import Server
import Settings

struct HealthCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "health",
        abstract: "Check that a running server is alive: exit code 0 if it is, 1 if not.",
        discussion: """
            For a container's HEALTHCHECK, which then needs neither a shell nor curl. It needs no operator key. status says whether \
            anything is sent.
            """
    )

    @Option(
        help: """
            The server's address. (default: SERVER_URL; else that of the server that serve runs with the same settings; without \
            valid settings, http://127.0.0.1:8080)
            """
    )
    var url: String?

    @OptionGroup var options: SettingsOptions

    @concurrent
    func run() async throws {
        try await reportingFailures {
            let address = try self.address()
            let loops = try EventLoopGroup(count: 1)
            defer { loops.shutdown() }
            var settings = HTTPClientSettings()
            // The server's own certificate is for its public name, not for this address. The request contains no
            // secret.
            if address.isOfSettings { settings.trust = nil }
            let client = HTTPClient(settings: settings, loop: loops.loops[0])
            let request = HTTPClientRequest(method: .get, url: Self.path(address.url))
            let status: Int
            do throws(HTTPClientError) {
                status = try await client.send(request).status
            } catch {
                await client.shutdown()
                throw CallFailure(error, address.url)
            }
            await client.shutdown()
            guard status == 200 else {
                throw CommandFailure("\(address.url) responded with \(status). Is it a push-server?")
            }
            Terminal.writeTable([["server", "alive"]])
        }
    }

    /// Returns the address to check, and whether it is that of the settings.
    ///
    /// - Throws: ``SettingsError`` for invalid settings of a file that was named.
    private func address() throws -> (url: String, isOfSettings: Bool) {
        // A settings file that was named is meant, whatever server the other commands of this shell call.
        let other = options.file == nil ? ProcessInfo.processInfo.environment["SERVER_URL"] : nil
        if let url = url ?? other, !url.isEmpty { return (url, false) }
        do {
            return (try options.load().localURL, true)
        } catch  where options.file == nil {
            // A machine without the server's settings, such as an operator's.
            return (ServerOptions.defaultURL, false)
        }
    }

    /// Returns the URL to request: that of `/healthz`, unless the address has a path.
    static func path(_ address: String) -> String {
        let address = address.hasSuffix("/") ? String(address.dropLast()) : address
        let rest = address.split(separator: "://", maxSplits: 1).last ?? ""
        return rest.contains("/") ? address : "\(address)/healthz"
    }
}
