import FoundationEssentials
package import TestSupport
import Testing

/// `push-server dev` as a process, with a folder for its data.
package struct DevServer {
    package let process: RunningProgram
    /// The variables of `dev.env`.
    package let variables: [String: String]

    /// Starts a development server, on a free port unless the options name one.
    package static func process(
        in folder: String,
        _ options: [String] = [],
        environment: [String: String] = [:]
    ) async throws -> RunningProgram {
        let own = ["PATH": ProcessInfo.processInfo.environment["PATH"] ?? "", "LOG_LEVEL": "notice"]
        let arguments = ["dev", "--port", "0", "--directory", folder] + options
        return try await .start(arguments, environment: own.merging(environment) { $1 })
    }

    /// Runs `body` with a development server, which has ended afterwards.
    package static func with(
        in folder: String,
        _ options: [String] = [],
        environment: [String: String] = [:],
        _ body: (DevServer) async throws -> Void
    ) async throws {
        let process = try await process(in: folder, options, environment: environment)
        try await process.whileRunning {
            // The server makes a cluster of PostgreSQL first, which takes as long as the machine needs.
            var file: Data?
            while file == nil {
                try #require(!process.hasEnded, "\(process.lines)")
                try await Task.sleep(for: .milliseconds(20))
                file = FileManager.default.contents(atPath: "\(folder)/dev.env")
            }
            let lines = String(decoding: file ?? Data(), as: UTF8.self).split(separator: "\n")
            let pairs = lines.filter { $0.hasPrefix("export ") }.map { line in
                let parts = line.dropFirst("export ".count).split(separator: "=", maxSplits: 1)
                return (String(parts[0]), String(parts[1].dropFirst().dropLast()))
            }
            try await body(DevServer(process: process, variables: Dictionary(uniqueKeysWithValues: pairs)))
        }
    }

    /// Runs a script with the variables of a development server, in a folder with these files, and returns its lines.
    package static func run(_ script: String, files: [String: String] = [:]) async throws -> [String] {
        let folder = try TemporaryFolder.make()
        for (name, text) in files { try writeFile(Array(text.utf8), to: "\(folder)/\(name)") }
        var lines: [String] = []
        try await with(in: "\(folder)/local") { dev in
            let variables = dev.variables.merging(["PATH": "/usr/bin:/bin", "HOME": folder]) { $1 }
            let arguments = ["bash", "-euo", "pipefail", "-c", "cd \(folder)\n\(script)"]
            let result = try await Program.run(arguments, environment: variables)
            #expect(result.status == 0, "\(result.text)")
            lines = result.text.split(separator: "\n").map(String.init)
        }
        return lines
    }
}
