import ChildProcess
import EventLoop
import Glibc
import HTTPClient
import HTTPTypes
import JSON
import Net
import Settings
import Subprocess

/// The sandbox, run as a separate process.
struct SandboxProcess {
    /// The text that the sandbox prints before its URL once it accepts connections.
    private static let readyPrefix = "kakao-sandbox is ready at "
    private static let startTimeout = Duration.seconds(60)
    private static let stopTimeout = Duration.seconds(10)

    private static let program = Executable.sibling("kakao-sandbox")

    private let process: ChildProcess

    /// Checks that there is a sandbox, before anything else is started.
    ///
    /// - Throws: ``SettingsError``.
    static func check() throws {
        guard access(program, X_OK) != 0 else { return }
        throw SettingsError(
            place: program,
            message:
                "There is no sandbox, which takes Kakao's place. Install the package kakao-sandbox, or build it beside this program."
        )
    }

    /// - Parameter onLine: Called with each line that the sandbox prints.
    init(onLine: @escaping @Sendable (String) -> Void) {
        process = ChildProcess(isReady: { $0.hasPrefix(Self.readyPrefix) }, onLine: onLine)
    }

    /// Starts the sandbox over HTTPS and returns its URL once it accepts connections.
    ///
    /// - Parameters:
    ///   - host: The address to listen on, and the one in the URL.
    ///   - callbackCertificateFile: The certificate of the push server, if it serves HTTPS by its settings.
    /// - Throws: ``SettingsError`` if the sandbox exits instead.
    func start(
        host: DevHost,
        port: UInt16,
        adminKey: String,
        certificate: DevCertificate,
        callbackCertificateFile: String?
    ) async throws -> String {
        var arguments = [
            "--host", host.address, "--name", host.name, "--port", String(port), "--tls", "--certificate-file",
            certificate.file, "--private-key-file", certificate.keyFile,
        ]
        if let callbackCertificateFile { arguments += ["--callback-certificate-file", callbackCertificateFile] }
        // The kernel sends the sandbox SIGTERM when this process ends, even by a crash.
        process.launch(
            .name("setpriv"),
            Arguments(["--pdeathsig", "TERM", "--", Self.program] + arguments),
            environment: .inherit.updating(["KAKAO_ADMIN_KEY": adminKey])
        )
        guard case .ready(let line) = await process.waitUntilReady(within: Self.startTimeout) else {
            await stop()
            throw SettingsError(place: "kakao-sandbox", message: "The sandbox did not start. See its lines in the log.")
        }
        return String(line.dropFirst(Self.readyPrefix.count))
    }

    /// Sets the base URL at which a sandbox calls the push server, which has no port before the sandbox has one.
    ///
    /// - Throws: ``CommandFailure`` if the sandbox does not respond.
    static func setCallbackURL(_ url: String, of sandboxURL: String, certificateFile: String) async throws {
        let loops = try EventLoopGroup(count: 1)
        defer { loops.shutdown() }
        let settings = HTTPClientSettings(trust: try TrustStore(file: certificateFile))
        let client = HTTPClient(settings: settings, loop: loops.loops[0])
        let body: JSONValue = ["url": .string(url)]
        let request = HTTPClientRequest(
            method: .post,
            url: "\(sandboxURL)/sandbox/callback-url",
            body: Array(body.description.utf8)
        )
        let result: Result<HTTPClientResponse, any Error>
        do { result = .success(try await client.send(request)) } catch { result = .failure(error) }
        await client.shutdown()
        let status = try result.get().status
        guard status == 204 else {
            throw CommandFailure("The sandbox does not accept its callback URL \(url): it responded with \(status).")
        }
    }

    /// Stops the sandbox and waits until it has exited. A sandbox that does not react is killed.
    func stop() async {
        if await process.end(with: .terminate, within: Self.stopTimeout) { return }
        await process.end(with: .kill, within: Self.stopTimeout)
    }
}
