internal import Glibc
internal import Subprocess
internal import SystemPackage

/// A program that runs as the database's user, in a session of its own and with an environment that knows nothing of ours.
struct Program: Sendable {
    let path: String
    let user: ServiceUser

    /// Only what the programs need. Above all no `PG…` variable, which would be meant for another server.
    static var environment: Environment {
        let path = getenv("PATH").map { String(cString: $0) } ?? "/usr/local/bin:/usr/bin:/bin"
        return .custom(["PATH": path, "LC_ALL": "C", "TZ": "UTC"])
    }

    /// Away from our own terminal: its Ctrl-C is for us, who then stop the server in order.
    var options: PlatformOptions {
        var options = PlatformOptions()
        options.createSession = true
        if user.isAnother {
            options.userID = user.userID
            options.groupID = user.groupID
            options.supplementaryGroups = []
        }
        return options
    }

    /// Runs it to its end.
    ///
    /// - Returns: what it printed on both outputs, and whether it succeeded.
    func run(_ arguments: [String]) async throws -> (output: [String], isSuccess: Bool) {
        let result = try await Subprocess.run(
            .path(FilePath(path)),
            arguments: Arguments(arguments),
            environment: Self.environment,
            // Its user may not be allowed into our own.
            workingDirectory: FilePath("/"),
            platformOptions: options,
            output: .string(limit: 1 << 20),
            error: .combinedWithOutput
        )
        let lines = result.standardOutput.split(whereSeparator: \.isNewline).map(String.init)
        return (lines, result.terminationStatus.isSuccess)
    }

    /// The first of the directories where system programs are that has `name`.
    static func find(_ name: String) -> String? {
        ["/usr/bin", "/bin", "/usr/local/bin"].map { "\($0)/\(name)" }.first { access($0, X_OK) == 0 }
    }
}
