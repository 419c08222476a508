import Glibc
import TestSupport

/// A TLS server with a certificate for `localhost`, unless another is given, run by the command `openssl`.
final class TLSServer: Sendable {
    let port: String
    /// The path of the certificate in PEM form.
    let certificateFile: String

    /// Runs a server for the duration of `body`.
    static func run(options: [String] = [], _ body: (TLSServer) async throws -> Void) async throws {
        try await run(TestCertificate(.init(commonName: "localhost", names: "DNS:localhost")), options: options, body)
    }

    /// Runs a server with a certificate for the duration of `body`.
    static func run(
        _ own: TestCertificate,
        options: [String] = [],
        _ body: (TLSServer) async throws -> Void
    ) async throws {
        let folder = try TemporaryFolder.make()
        let certificate = try writeFile(Array(own.pem.utf8), to: "\(folder)/certificate.pem")
        let key = try writeFile(Array(own.keyPEM.utf8), to: "\(folder)/key.pem")
        let command = try Command(["s_server", "-accept", "0", "-cert", certificate, "-key", key, "-www"] + options)
        defer { command.end() }
        while let line = command.readLine() {
            guard line.hasPrefix("ACCEPT"), let port = line.split(separator: ":").last else { continue }
            return try await body(TLSServer(port: String(port), certificateFile: certificate))
        }
        throw Failure(what: "openssl s_server")
    }

    struct Failure: Error {
        let what: String
    }

    private init(port: String, certificateFile: String) {
        self.port = port
        self.certificateFile = certificateFile
    }

    /// Returns the URL of the server's page, with the given host name.
    func url(_ host: String) -> String {
        "https://\(host):\(port)/"
    }
}

/// The running command `openssl` and its output.
private final class Command {
    private let process: pid_t
    private let output: UnsafeMutablePointer<FILE>

    init(_ arguments: [String]) throws {
        var ends: [Int32] = [0, 0]
        guard pipe2(&ends) else { throw TLSServer.Failure(what: "pipe") }
        defer { close(ends[1]) }
        var actions = posix_spawn_file_actions_t()
        posix_spawn_file_actions_init(&actions)
        defer { posix_spawn_file_actions_destroy(&actions) }
        posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0)
        posix_spawn_file_actions_adddup2(&actions, ends[1], 1)
        posix_spawn_file_actions_addopen(&actions, 2, "/dev/null", O_WRONLY, 0)
        var strings = (["openssl"] + arguments).map { strdup($0) } + [nil]
        defer { for string in strings { free(string) } }
        var process = pid_t()
        guard posix_spawnp(&process, "openssl", &actions, nil, &strings, environ) == 0,
            let output = fdopen(ends[0], "r")
        else {
            close(ends[0])
            throw TLSServer.Failure(what: "openssl")
        }
        self.process = process
        self.output = output
    }

    /// Returns the next line of the command's output, or `nil` at its end.
    func readLine() -> String? {
        var line: UnsafeMutablePointer<CChar>?
        var capacity = 0
        defer { free(line) }
        guard getline(&line, &capacity, output) > 0, let line else { return nil }
        return String(cString: line).trimmingLineEnd()
    }

    func end() {
        kill(process, SIGKILL)
        waitpid(process, nil, 0)
        fclose(output)
    }
}

/// Creates a pipe whose ends are closed in child processes that other tests spawn meanwhile.
private func pipe2(_ ends: inout [Int32]) -> Bool {
    guard pipe(&ends) == 0 else { return false }
    for end in ends { _ = fcntl(end, F_SETFD, FD_CLOEXEC) }
    return true
}

extension String {
    fileprivate func trimmingLineEnd() -> String {
        hasSuffix("\n") ? String(dropLast()) : self
    }
}
