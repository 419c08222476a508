import Subprocess
import SystemPackage
import TestSupport

/// A runner of a command of `push-server` that calls a server: `push-server pushes`.
package struct OperatorCommand {
    package struct Result {
        package let code: Int32?
        package let output: String
        package let errors: String

        package var lines: [String] { output.split(separator: "\n").map(String.init) }
    }

    private let command: String
    private let environment: [Environment.Key: String]

    package init(_ command: String, _ url: String, key: String? = Keys.operator) {
        self.command = command
        var environment: [Environment.Key: String] = ["SERVER_URL": url, "PATH": "/usr/bin:/bin"]
        environment["OPERATOR_KEY"] = key
        // A command ends with exit() and frees nothing, which is not a leak.
        environment["ASAN_OPTIONS"] = "detect_leaks=0"
        self.environment = environment
    }

    /// Runs the command to its end.
    package func run(_ arguments: [String], input: String = "") async throws -> Result {
        try await run(Program.path("push-server"), [command] + arguments, input)
    }

    /// Runs the command on a terminal with this number of columns, which combines both outputs.
    package func runOnTerminal(_ arguments: [String], columns: Int = 80, input: String = "") async throws -> Result {
        let words = ([try Program.path("push-server"), command] + arguments).map { "'\($0)'" }
        let command = "stty cols \(columns); exec \(words.joined(separator: " "))"
        return try await run("/usr/bin/script", ["-qec", command, "/dev/null"], input)
    }

    private func run(_ program: String, _ arguments: [String], _ input: String) async throws -> Result {
        let result = try await Subprocess.run(
            .path(FilePath(program)),
            arguments: Arguments(arguments),
            environment: .custom(environment),
            workingDirectory: "/",
            input: .string(input),
            output: .string(limit: 1 << 20),
            error: .string(limit: 1 << 20)
        )
        var code: Int32?
        if case .exited(let status) = result.terminationStatus { code = status }
        return Result(code: code, output: result.standardOutput, errors: result.standardError)
    }
}
