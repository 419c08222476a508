import ArgumentParser
import Crypto
import EventLoop
import FoundationEssentials
import Glibc
import LogOutput
import Logging
import Postgres
import Server
import Settings

/// The options for the settings file and the migrations, shared by all commands that need them.
struct SettingsOptions: ParsableArguments {
    /// The settings files of which the first one that exists is read without `--config`: that of the folder, and that of the package.
    static let defaultFiles = ["config/push-server.yaml", "/etc/push-server/push-server.yaml"]

    @Option(
        name: .customLong("config"),
        help: "The settings file. (default: \(Self.defaultFiles.joined(separator: " or ")), if one exists)"
    )
    var file: String?

    @Option(help: "A folder of migrations. (default: those of this version, which are a part of the program)")
    var migrations: String?

    /// The file that is read, if it exists.
    private var path: String {
        file ?? Self.defaultFiles.first { access($0, F_OK) == 0 } ?? Self.defaultFiles[0]
    }

    /// The options without the settings of the package: those of a development server are not those of the service on its machine.
    var ofDevelopment: SettingsOptions {
        var options = self
        if file == nil, path != Self.defaultFiles[0] { options.file = "/dev/null" }
        return options
    }

    /// Reads the settings from the file and the environment.
    ///
    /// - Throws: ``SettingsError`` if the file cannot be read or a setting is missing, unknown or invalid.
    func load(environment: [String: String] = ProcessInfo.processInfo.environment) throws -> Settings {
        let path = path
        let yaml: String?
        do {
            yaml = try FileContents.text(path)
        } catch {
            guard file == nil, error.code == ENOENT else {
                throw SettingsError(place: path, message: "The file cannot be read\(error.words).")
            }
            yaml = nil
        }
        do {
            return try Settings(
                environment: environment,
                yaml: yaml,
                path: path,
                readFile: FileContents.text
            )
        } catch let error as SettingsError where yaml == nil && error.isOfMissingSetting {
            let folder = FileManager.default.currentDirectoryPath
            throw SettingsError(
                place: error.place,
                message:
                    "\(error.message) There is no readable \(path) in \(folder): run it in the folder of the file, or name the file with --config."
            )
        }
    }

    /// The sources that ``load(environment:)`` reads, in words.
    var source: String {
        FileContents.read(path) == nil ? "the environment" : "\(path) and the environment"
    }

    /// Runs `body` with the settings, and with connections to their database for this command. Reports a thrown error as
    /// one line and an exit code.
    func withDatabase(_ body: (Settings, PostgresPool) async throws -> Void) async throws {
        try await reportingFailures {
            let settings = try load()
            let sink = LogSink()
            defer { sink.flush() }
            try await settings.withDatabase(logger: settings.logger(sink)) { pool, _ in try await body(settings, pool) }
        }
    }
}

/// The paths of this program and of others beside it.
enum Executable {
    static var path: String {
        (try? FileManager.default.destinationOfSymbolicLink(atPath: "/proc/self/exe")) ?? ""
    }

    /// The folder of the programs of this package.
    static var folder: String {
        path.split(separator: "/", omittingEmptySubsequences: false).dropLast().joined(separator: "/")
    }

    /// Returns the path of another program of this package, which is in the same folder.
    static func sibling(_ name: String) -> String { "\(folder)/\(name)" }
}

extension Settings {
    /// Returns a logger with the format of the settings, and sets the level of the sink.
    func logger(_ sink: LogSink) -> Logger {
        sink.level = logLevel
        return Logger(label: "push-server") { _ in LineLogHandler(sink: sink, format: logFormat) }
    }

    /// Runs `body` with connections to the database and their event loop, which both end with it.
    func withDatabase(logger: Logger, _ body: (PostgresPool, EventLoop) async throws -> Void) async throws {
        let loops = try EventLoopGroup(count: 1)
        defer { loops.shutdown() }
        let loop = loops.loops[0]
        var database = try PostgresSettings(url: databaseURL.revealed)
        // A command makes one statement after another.
        database.writeConnections = 1
        let pool = PostgresPool(settings: database, loop: loop, logger: logger)
        pool.start()
        do {
            try await body(pool, loop)
            // For a connection that is closed while it opens, PostgreSQL would log an error with a long statement.
            _ = try? await pool.read(text: "SELECT 1")
            _ = try? await pool.write(text: "SELECT 1")
        } catch {
            await pool.shutdown()
            throw error
        }
        await pool.shutdown()
    }
}

/// Runs a command's work. Reports a thrown error as one line on standard error and an exit code.
func reportingFailures(_ body: () async throws -> Void) async throws {
    do {
        try await body()
    } catch let error as SettingsError {
        Terminal.writeError("push-server: \(error)")
        throw ExitCode(EX_CONFIG)
    } catch let exit as ExitCode {
        throw exit
    } catch let error as PostgresError {
        Terminal.writeError("push-server: \(error.report)")
        switch error.code {
        case .settings, .standby, .unsuitable: throw ExitCode(EX_CONFIG)
        default: throw ExitCode.failure
        }
    } catch let failure as any FailureOfArguments where failure.isOfArguments {
        Terminal.writeError("push-server: \(failure)")
        throw ExitCode(EX_USAGE)
    } catch {
        Terminal.writeError("push-server: \(error)")
        throw ExitCode.failure
    }
}
