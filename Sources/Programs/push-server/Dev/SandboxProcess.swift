import ChildProcess
import Settings
import Subprocess

/// The sandbox, run as a separate process.
struct SandboxProcess {
    /// The text that the sandbox prints before its URL once it accepts connections.
    private static let readyPrefix = "kakao-sandbox is ready at "
    private static let startTimeout = Duration.seconds(60)
    private static let stopTimeout = Duration.seconds(10)

    private let process: ChildProcess

    /// - Parameter onLine: Called with each line that the sandbox prints.
    init(onLine: @escaping @Sendable (String) -> Void) {
        process = ChildProcess(isReady: { $0.hasPrefix(Self.readyPrefix) }, onLine: onLine)
    }

    /// Starts the sandbox over HTTPS and returns its URL once it accepts connections.
    ///
    /// - Parameters:
    ///   - host: The address to listen on, and the one in the URL and the certificate.
    ///   - certificateFile: The absolute path of the file that the sandbox writes its certificate to, which its clients have
    ///     to trust.
    /// - Throws: ``SettingsError`` if the sandbox exits instead.
    func start(host: DevHost, port: UInt16, adminKey: String, certificateFile: String) async throws -> String {
        let arguments = [
            "--host", host.address, "--name", host.name, "--port", String(port), "--tls", "--certificate-file",
            certificateFile,
        ]
        // The kernel sends the sandbox SIGTERM when this process ends, even by a crash.
        process.launch(
            .name("setpriv"),
            Arguments(["--pdeathsig", "TERM", "--", Executable.sibling("kakao-sandbox")] + arguments),
            environment: .inherit.updating(["KAKAO_ADMIN_KEY": adminKey])
        )
        guard case .ready(let line) = await process.waitUntilReady(within: Self.startTimeout) else {
            await stop()
            throw SettingsError(place: "kakao-sandbox", message: "The sandbox did not start. See its lines in the log.")
        }
        return String(line.dropFirst(Self.readyPrefix.count))
    }

    /// Stops the sandbox and waits until it has exited. A sandbox that does not react is killed.
    func stop() async {
        if await process.end(with: .terminate, within: Self.stopTimeout) { return }
        await process.end(with: .kill, within: Self.stopTimeout)
    }
}
