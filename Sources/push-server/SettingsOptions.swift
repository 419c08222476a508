internal import ArgumentParser
internal import FoundationEssentials
internal import Glibc
internal import LogOutput
internal import Logging
internal import PushService

/// Where the settings and the migrations are: the same for every command that needs them.
struct SettingsOptions: ParsableArguments {
    /// Where the settings are looked for when nobody says.
    private static let defaultFile = "config/push-server.yaml"

    @Option(name: .customLong("config"), help: "The settings' file. (default: config/push-server.yaml, if it is there)")
    var file: String?

    @Option(help: "The folder of the migrations. (default: the nearest named migrations, here or beside the program)")
    var migrations: String?

    /// Reads the settings.
    ///
    /// - Throws: ``SettingsError``.
    func load(environment: [String: String] = ProcessInfo.processInfo.environment) throws -> Settings {
        let path = file ?? Self.defaultFile
        let contents = FileContents.read(path)
        guard contents != nil || file == nil else {
            throw SettingsError(place: path, message: "The file cannot be read.")
        }
        return try Settings(
            environment: environment,
            yaml: contents.map { String(decoding: $0, as: UTF8.self) },
            path: path,
            readFile: { path in
                guard let contents = FileContents.read(path) else { throw CocoaError(.fileReadNoSuchFile) }
                return String(decoding: contents, as: UTF8.self)
            }
        )
    }

    /// Where ``load(environment:)`` reads from, for people.
    var source: String {
        let path = file ?? Self.defaultFile
        return FileContents.read(path) == nil ? "the environment" : "\(path) and the environment"
    }

    /// The folder of the migrations: beside where we are, or on the way up from the program, as in a clone or an image.
    func migrationsFolder() throws -> String {
        if let migrations { return migrations }
        var folders = [FileManager.default.currentDirectoryPath]
        var folder = Executable.path
        while let slash = folder.lastIndex(of: "/"), slash > folder.startIndex {
            folder = String(folder[..<slash])
            folders.append(folder)
        }
        for folder in folders where FileManager.default.fileExists(atPath: "\(folder)/migrations/0001_devices.sql") {
            return "\(folder)/migrations"
        }
        throw SettingsError(
            place: "--migrations",
            message: "There is no folder named migrations here or beside the program."
        )
    }
}

/// This program's own file.
enum Executable {
    static var path: String {
        var buffer = [CChar](repeating: 0, count: Int(PATH_MAX))
        let count = readlink("/proc/self/exe", &buffer, buffer.count)
        return count > 0 ? String(decoding: buffer[..<count].map { UInt8(bitPattern: $0) }, as: UTF8.self) : ""
    }

    /// A program of this package, which lies in the same folder.
    static func sibling(_ name: String) -> String {
        let folder = path.split(separator: "/", omittingEmptySubsequences: false).dropLast().joined(separator: "/")
        return "\(folder)/\(name)"
    }
}

extension Settings {
    /// The logger that the settings ask for.
    func logger(_ sink: LogSink) -> Logger {
        Logger(label: "push-server") { _ in LineLogHandler(sink: sink, format: logFormat, level: logLevel) }
    }
}

/// Runs a command's work and turns what it throws into one line and an exit code.
func reportingFailures(_ body: () async throws -> Void) async throws {
    do {
        try await body()
    } catch let error as SettingsError {
        Terminal.writeError("push-server: \(error)")
        throw ExitCode(EX_CONFIG)
    } catch let exit as ExitCode {
        throw exit
    } catch {
        Terminal.writeError("push-server: \(error)")
        throw ExitCode.failure
    }
}
