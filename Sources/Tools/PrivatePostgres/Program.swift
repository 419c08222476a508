import ChildProcess
import Glibc
import Subprocess
import SystemPackage

/// A program that runs as the database's user, in its own session, and with an environment that inherits only `PATH`.
struct Program: Sendable {
    let path: String
    let user: ServiceUser

    /// The variables that the programs need. `PG…` variables are excluded, because they may refer to another server.
    static var environment: Environment {
        let path = getenv("PATH").map { String(cString: $0) } ?? "/usr/local/bin:/usr/bin:/bin"
        return .custom(["PATH": path, "LC_ALL": "C", "TZ": "UTC"])
    }

    /// Runs the program and waits until it has ended.
    ///
    /// - Returns: The lines of standard output and standard error, and whether the program succeeded.
    func run(_ arguments: [String]) async throws -> (output: [String], isSuccess: Bool) {
        let (executable, arguments) = try command(arguments)
        let result = try await Subprocess.run(
            executable,
            arguments: arguments,
            environment: Self.environment,
            // The program's user may have no access to the current working directory.
            workingDirectory: FilePath("/"),
            platformOptions: .ownSession,
            output: .string(limit: 1 << 20),
            error: .combinedWithOutput
        )
        let lines = result.standardOutput.split(whereSeparator: \.isNewline).map(String.init)
        return (lines, result.terminationStatus.isSuccess)
    }

    /// Returns the executable and arguments that run the program as its user.
    ///
    /// `setpriv` (util-linux) changes the user. The C library cannot do so in a process that was just forked from a
    /// multithreaded one, because it would wait for those threads.
    ///
    /// - Parameter endsWithUs: Whether the kernel sends the program SIGINT when this process ends for any reason.
    ///   Ignored if `setpriv` is not installed.
    /// - Throws: ``PrivatePostgresError`` if the user cannot be changed.
    func command(
        _ arguments: [String],
        endsWithUs: Bool = false
    ) throws(PrivatePostgresError) -> (Executable, Arguments) {
        var options: [String] = []
        if user.isAnother {
            options += ["--reuid=\(user.userID)", "--regid=\(user.groupID)", "--clear-groups"]
        }
        if endsWithUs { options += ["--pdeathsig=INT"] }
        guard !options.isEmpty else { return (.path(FilePath(path)), Arguments(arguments)) }
        if let setpriv = Self.find("setpriv") {
            return (.path(FilePath(setpriv)), Arguments(options + ["--", path] + arguments))
        }
        guard !user.isAnother else {
            throw PrivatePostgresError("PostgreSQL refuses to run as root, and setpriv is missing. Install util-linux.")
        }
        return (.path(FilePath(path)), Arguments(arguments))
    }

    /// Returns the path of the program `name` in the system's directories.
    static func find(_ name: String) -> String? {
        ["/usr/bin", "/bin", "/usr/local/bin"].map { "\($0)/\(name)" }.first { access($0, X_OK) == 0 }
    }
}
