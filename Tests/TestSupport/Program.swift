import Glibc
import Subprocess
import SystemPackage

/// Programs of the system or of this package that a test runs to their end: `curl`, `openssl`.
package enum Program {
    package struct Result: Sendable {
        /// The exit code, or 128 plus the signal's number if a signal ended the program.
        package let status: Int32
        /// Standard output and standard error.
        package let output: [UInt8]

        package var text: String { String(decoding: output, as: UTF8.self) }
    }

    /// Runs a program to its end.
    ///
    /// - Parameters:
    ///   - arguments: The program, which is looked up in `PATH`, and its arguments.
    ///   - environment: The environment variables, or `nil` for those of the tests.
    ///   - input: The standard input.
    /// - Throws: An error when the program cannot be started or prints more than 4 MiB.
    package static func run(
        _ arguments: [String],
        environment: [String: String]? = nil,
        input: String = ""
    ) async throws -> Result {
        // A file, because with any other input Subprocess ends this process if the program exits before it has read its
        // input.
        let file = input.isEmpty ? "/dev/null" : try writeFile(Array(input.utf8), to: "\(TemporaryFolder.make())/input")
        let descriptor = try FileDescriptor.open(file, .readOnly, options: .closeOnExec)
        let result = try await Subprocess.run(
            .name(arguments[0]),
            arguments: Arguments(Array(arguments.dropFirst())),
            environment: environment.map { .custom($0.asEnvironment) } ?? .inherit,
            input: .fileDescriptor(descriptor, closeAfterSpawningProcess: true),
            output: .bytes(limit: 4 << 20),
            error: .combinedWithOutput
        )
        return Result(status: result.terminationStatus.code, output: result.standardOutput)
    }

    /// Returns the path of a program of this package, which is built beside these tests.
    package static func path(_ name: String) throws -> String {
        var buffer = [CChar](repeating: 0, count: 4096)
        let count = readlink("/proc/self/exe", &buffer, buffer.count)
        guard count > 0 else { throw Errno(rawValue: errno) }
        let own = String(decoding: buffer[..<count].map { UInt8(bitPattern: $0) }, as: UTF8.self)
        return "\(own[..<(own.lastIndex(of: "/") ?? own.endIndex)])/\(name)"
    }
}

extension TerminationStatus {
    fileprivate var code: Int32 {
        switch self {
        case .exited(let code): code
        case .signaled(let signal): 128 + signal
        }
    }
}

extension [String: String] {
    var asEnvironment: [Environment.Key: String] {
        var variables: [Environment.Key: String] = [:]
        for (name, value) in self {
            if let key = Environment.Key(rawValue: name) { variables[key] = value }
        }
        return variables
    }
}
