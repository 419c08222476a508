import FoundationEssentials
import Glibc
import Settings
import Subprocess
import SystemPackage

/// The sandbox, run as a separate process.
actor SandboxProcess {
    private enum Phase {
        case starting
        case ready(String)
        case ended
    }

    /// The text that the sandbox prints before its URL once it accepts connections.
    private static let readyPrefix = "kakao-sandbox is ready at "

    private let onLine: @Sendable (String) -> Void
    private var phase = Phase.starting
    private var task: Task<Void, Never>?
    private var process: ProcessIdentifier?
    private var waiting: CheckedContinuation<Void, Never>?

    /// - Parameter onLine: Called with each line that the sandbox prints.
    init(onLine: @escaping @Sendable (String) -> Void) {
        self.onLine = onLine
    }

    /// Starts the sandbox over HTTPS and returns its URL once it accepts connections.
    ///
    /// - Parameter certificateFile: The file that the sandbox writes its certificate to, which its clients have to
    ///   trust.
    /// - Throws: ``SettingsError`` if the sandbox exits instead.
    func start(port: UInt16, adminKey: String, certificateFile: String) async throws -> String {
        let arguments = ["--port", String(port), "--tls", "--certificate-file", certificateFile]
        task = Task.detached { await self.run(arguments, adminKey) }
        await withCheckedContinuation { continuation in
            if case .starting = phase { waiting = continuation } else { continuation.resume() }
        }
        guard case .ready(let url) = phase else {
            throw SettingsError(place: "kakao-sandbox", message: "The sandbox did not start. See its lines in the log.")
        }
        return url
    }

    /// Stops the sandbox and waits until it has exited.
    func stop() async {
        if let process { kill(process.value, SIGTERM) }
        await task?.value
    }

    private nonisolated func run(_ arguments: [String], _ adminKey: String) async {
        var options = PlatformOptions()
        // In a separate session, the sandbox does not receive the terminal's Ctrl-C. This process stops it when it is
        // no longer needed.
        options.createSession = true
        do {
            // The kernel sends the sandbox SIGTERM when this process ends, even by a crash.
            _ = try await Subprocess.run(
                .name("setpriv"),
                arguments: Arguments(["--pdeathsig", "TERM", "--", Executable.sibling("kakao-sandbox")] + arguments),
                environment: .inherit.updating(["KAKAO_ADMIN_KEY": adminKey]),
                platformOptions: options,
                input: .none,
                output: .sequence,
                error: .combinedWithOutput
            ) { execution in
                await self.started(execution.processIdentifier)
                for try await line in execution.standardOutput.strings() { await self.received(line) }
            }
        } catch {
            onLine("\(error)")
        }
        await ended()
    }

    private func started(_ process: ProcessIdentifier) {
        self.process = process
    }

    private func received(_ line: String) {
        onLine(line)
        guard case .starting = phase, line.hasPrefix(Self.readyPrefix) else { return }
        move(to: .ready(String(line.dropFirst(Self.readyPrefix.count))))
    }

    private func ended() {
        process = nil
        move(to: .ended)
    }

    private func move(to phase: Phase) {
        self.phase = phase
        waiting?.resume()
        waiting = nil
    }
}
