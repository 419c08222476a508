internal import Glibc
internal import Subprocess
internal import SystemPackage

/// A program that runs as the database's user, in a session of its own and with an environment that knows nothing of
/// ours.
struct Program: Sendable {
    let path: String
    let user: ServiceUser

    /// Only what the programs need. Above all no `PG…` variable, which would be meant for another server.
    static var environment: Environment {
        let path = getenv("PATH").map { String(cString: $0) } ?? "/usr/local/bin:/usr/bin:/bin"
        return .custom(["PATH": path, "LC_ALL": "C", "TZ": "UTC"])
    }

    /// Away from our own terminal: its Ctrl-C is for us, who then stop the server in order.
    static var options: PlatformOptions {
        var options = PlatformOptions()
        options.createSession = true
        return options
    }

    /// Runs it to its end.
    ///
    /// - Returns: what it printed on both outputs, and whether it succeeded.
    func run(_ arguments: [String]) async throws -> (output: [String], isSuccess: Bool) {
        let (executable, arguments) = try command(arguments)
        let result = try await Subprocess.run(
            executable,
            arguments: arguments,
            environment: Self.environment,
            // Its user may not be allowed into our own.
            workingDirectory: FilePath("/"),
            platformOptions: Self.options,
            output: .string(limit: 1 << 20),
            error: .combinedWithOutput
        )
        let lines = result.standardOutput.split(whereSeparator: \.isNewline).map(String.init)
        return (lines, result.terminationStatus.isSuccess)
    }

    /// What to execute so that it runs as its user.
    ///
    /// `setpriv` (util-linux) changes the user: a process that has just been forked from one with many threads cannot
    /// do so with the C library, which would wait for those threads.
    ///
    /// - Parameter endsWithUs: whether the kernel is to send it SIGINT when we are gone, however we went.
    /// - Throws: ``PrivatePostgresError`` if the user cannot be changed. Without `setpriv` it does not end with us.
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
            throw PrivatePostgresError("PostgreSQL does not run as root, and there is no setpriv to change that.")
        }
        return (.path(FilePath(path)), Arguments(arguments))
    }

    /// Where the system has the program `name`.
    static func find(_ name: String) -> String? {
        ["/usr/bin", "/bin", "/usr/local/bin"].map { "\($0)/\(name)" }.first { access($0, X_OK) == 0 }
    }
}
