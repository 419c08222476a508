internal import ArgumentParser
internal import EventLoop
internal import FoundationEssentials
internal import HTTPClient
internal import PushService

/// Which server is called and with which key: the same for every command that calls one.
///
/// The key is no argument: everybody on the machine sees those.
struct ServerOptions: ParsableArguments {
    private static let defaultURL = "http://127.0.0.1:8080"

    @Option(help: "The server's address. (default: SERVER_URL, or http://127.0.0.1:8080)")
    var url: String?

    @Option(help: "A file that holds an operator's key. (default: the key in OPERATOR_KEY)")
    var keyFile: String?

    @Option(help: "A file of certificates in PEM form that are trusted instead of the system's.")
    var caFile: String?

    /// Runs `body` with a client of the server, on a loop of its own, and turns what it throws into a line and an exit code.
    func withServer(_ body: (ServerClient) async throws -> Void) async throws {
        try await reportingFailures {
            let environment = ProcessInfo.processInfo.environment
            let key = try key(environment)
            let loops = try EventLoopGroup(count: 1)
            defer { loops.shutdown() }
            let server = try ServerClient(
                url: url ?? environment["SERVER_URL"] ?? Self.defaultURL,
                key: key,
                caCertificateFile: caFile,
                loop: loops.loops[0]
            )
            do {
                try await body(server)
            } catch {
                await server.shutdown()
                throw error
            }
            await server.shutdown()
        }
    }

    private func key(_ environment: [String: String]) throws -> String {
        let text: String
        if let keyFile {
            guard let bytes = FileContents.read(keyFile) else {
                throw CommandFailure("\(keyFile) cannot be read: --key-file names a file that holds an operator's key.")
            }
            text = String(decoding: bytes, as: UTF8.self)
        } else {
            text = environment["OPERATOR_KEY"] ?? ""
        }
        guard let key = text.split(whereSeparator: \.isWhitespace).first else {
            throw CommandFailure(
                "There is no operator's key: put one into the environment as OPERATOR_KEY, or name a file with --key-file."
            )
        }
        guard key.utf8.allSatisfy({ (0x21...0x7E).contains($0) }) else {
            throw CommandFailure("The operator's key is none: it holds something else than visible ASCII characters.")
        }
        return String(key)
    }
}

/// A command cannot do what it was asked to, for a reason that is said in full sentences.
struct CommandFailure: Error, CustomStringConvertible {
    let description: String

    init(_ description: String) {
        self.description = description
    }
}
