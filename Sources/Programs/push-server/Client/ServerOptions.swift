import ArgumentParser
import EventLoop
import FoundationEssentials
import Settings

/// The options for the server to call and its key, shared by all commands that call a server.
///
/// The key is not an argument, since arguments are visible to every user of the machine.
struct ServerOptions: ParsableArguments {
    static let defaultURL = "http://127.0.0.1:8080"

    @Option(help: "The server's address. (default: SERVER_URL, or http://127.0.0.1:8080)")
    var url: String?

    @Option(help: "A file that contains an operator key. (default: the key in OPERATOR_KEY)")
    var keyFile: String?

    @Option(help: "A file of certificates (PEM) to trust instead of the system's.")
    var caFile: String?

    @Flag(help: "Show times in UTC, as output that is not a terminal has them. (default: the zone pushes.time_zone)")
    var utc = false

    /// Runs `body` with a client of the server on a separate event loop. Reports a thrown error as one line and an exit
    /// code.
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
                prefersUTC: utc,
                loop: loops.loops[0]
            )
            do {
                do {
                    try await body(server)
                } catch let failure as CallFailure {
                    throw await server.explained(failure)
                }
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
                throw CommandFailure("\(keyFile) cannot be read. --key-file must name a file with an operator key.")
            }
            text = String(decoding: bytes, as: UTF8.self)
        } else {
            text = environment["OPERATOR_KEY"] ?? ""
        }
        guard let key = text.split(whereSeparator: \.isWhitespace).first else {
            throw CommandFailure(
                "Missing operator key. Set OPERATOR_KEY, or name a file that contains the key with --key-file."
            )
        }
        guard key.utf8.allSatisfy({ (0x21...0x7E).contains($0) }) else {
            throw CommandFailure("Invalid operator key: it must contain only visible ASCII characters.")
        }
        return String(key)
    }
}

/// A failure that may be due to the arguments of a command, which then ends with the exit code of invalid arguments (`EX_USAGE`).
protocol FailureOfArguments: Error {
    /// Whether other arguments are the remedy.
    var isOfArguments: Bool { get }
}

/// The failure of a command, with the reason in full sentences.
struct CommandFailure: FailureOfArguments, CustomStringConvertible {
    let description: String
    var isOfArguments = false

    init(_ description: String) {
        self.description = description
    }

    /// Returns the failure of a command whose arguments are invalid.
    static func ofArguments(_ description: String) -> CommandFailure {
        var failure = CommandFailure(description)
        failure.isOfArguments = true
        return failure
    }
}
