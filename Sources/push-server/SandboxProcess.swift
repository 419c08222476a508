internal import FoundationEssentials
internal import Glibc
internal import PushService
internal import Subprocess
internal import SystemPackage

/// The sandbox as a process of its own, as Kakao is one.
actor SandboxProcess {
    private enum Phase {
        case starting
        case ready(String)
        case ended
    }

    /// What the sandbox prints, before its URL, when it takes calls.
    private static let readyPrefix = "kakao-sandbox is ready at "

    private let onLine: @Sendable (String) -> Void
    private var phase = Phase.starting
    private var task: Task<Void, Never>?
    private var process: ProcessIdentifier?
    private var waiting: CheckedContinuation<Void, Never>?

    /// - Parameter onLine: Is given each line that it prints.
    init(onLine: @escaping @Sendable (String) -> Void) {
        self.onLine = onLine
    }

    /// Starts it over HTTPS and returns its URL when it takes calls.
    ///
    /// - Parameter certificateFile: Where it writes the certificate that is to be trusted.
    /// - Throws: ``SettingsError`` when it ends instead.
    func start(port: UInt16, adminKey: String, certificateFile: String) async throws -> String {
        let arguments = ["--port", String(port), "--tls", "--certificate-file", certificateFile]
        task = Task.detached { await self.run(arguments, adminKey) }
        await withCheckedContinuation { continuation in
            if case .starting = phase { waiting = continuation } else { continuation.resume() }
        }
        guard case .ready(let url) = phase else {
            throw SettingsError(place: "kakao-sandbox", message: "did not start; the log says why.")
        }
        return url
    }

    /// Ends it and waits until it has.
    func stop() async {
        if let process { kill(process.value, SIGTERM) }
        await task?.value
    }

    private nonisolated func run(_ arguments: [String], _ adminKey: String) async {
        var options = PlatformOptions()
        // Ctrl-C in a terminal is for us: we end the sandbox when we no longer need it.
        options.createSession = true
        do {
            // It ends with us, however we end.
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
