import FoundationEssentials
package import Logging

/// A SQL file of migrations.
package struct MigrationFile: Sendable, Equatable {
    /// The path within the folder of migrations: `0001_devices.sql` or `functions/withdrawal.sql`.
    package let path: String
    package let contents: [UInt8]

    package init(path: String, contents: [UInt8]) {
        self.path = path
        self.contents = contents
    }
}

/// The SQL files of a directory or of the program, or some of them.
package struct SchemaFiles: Sendable, Equatable {
    /// The numbered files, in the order of their versions.
    package var migrations: [Migration] = []
    /// The functions and views, in the order of their names.
    package var functions: [FunctionFile] = []
    /// The names of migrations that the database has and these files lack, because a newer program has applied them.
    package var newer: [String] = []

    package var isEmpty: Bool { migrations.isEmpty && functions.isEmpty }
    package var count: Int { migrations.count + functions.count }
    package var fileNames: [String] { migrations.map(\.fileName) + functions.map(\.fileName) }

    /// Reads the files of a directory and of `functions` in it. Blocks.
    ///
    /// Ignores files that do not end in `.sql`.
    ///
    /// - Throws: ``PostgresError/Code/migration`` for a directory or file that cannot be read, no file, a `.sql` file with an
    ///   invalid name, two files of one version, a gap, or a statement that the migrator does not run.
    static func read(directory: String) throws(PostgresError) -> SchemaFiles {
        var files: [MigrationFile] = []
        for fileName in try names(in: directory) { files.append(try read(fileName, in: directory)) }
        guard !files.isEmpty else {
            throw PostgresError(
                .migration,
                message: "\(directory) has no migrations. Set --migrations to the folder of this version."
            )
        }
        for fileName in try names(in: "\(directory)/functions") {
            files.append(try read("functions/\(fileName)", in: directory))
        }
        return try parse(files)
    }

    /// Parses files in the order of their paths, the numbered ones first.
    ///
    /// - Throws: As ``read(directory:)``.
    static func parse(_ all: [MigrationFile]) throws(PostgresError) -> SchemaFiles {
        let folder = "functions/"
        var files = SchemaFiles()
        for file in all where !file.path.hasPrefix(folder) {
            let fileName = file.path
            guard let (version, name) = Migration.parse(fileName: fileName) else {
                throw PostgresError(
                    .migration,
                    message: "Invalid migration file name: \(fileName). Use a name such as 0001_first_step.sql."
                )
            }
            if let previous = files.migrations.last, previous.version == version {
                throw PostgresError(.migration, message: "\(previous.fileName) and \(fileName) have the same version.")
            }
            guard version == files.migrations.count + 1 else {
                throw PostgresError(
                    .migration,
                    message: "Migration \(files.migrations.count + 1) is missing before \(fileName)."
                )
            }
            files.migrations.append(Migration(version: version, name: name, script: try script(file)))
        }
        for file in all where file.path.hasPrefix(folder) {
            let name = String(file.path.dropFirst(folder.count).dropLast(4))
            guard isName(name) else {
                throw PostgresError(
                    .migration,
                    message: "Invalid file name: \(file.path). Use the name of its function or view."
                )
            }
            files.functions.append(FunctionFile(name: name, script: try script(file)))
        }
        return files
    }

    /// Whether a name consists of small letters, digits and underscores.
    static func isName(_ name: String) -> Bool {
        !name.isEmpty
            && name.utf8.allSatisfy { (0x61...0x7A).contains($0) || (0x30...0x39).contains($0) || $0 == 0x5F }
    }

    private static func names(in directory: String) throws(PostgresError) -> [String] {
        do {
            return try FileManager.default.contentsOfDirectory(atPath: directory).filter { $0.hasSuffix(".sql") }
                .sorted()
        } catch {
            throw PostgresError(.migration, message: "The directory of migrations cannot be read.", detail: "\(error)")
        }
    }

    private static func read(_ path: String, in directory: String) throws(PostgresError) -> MigrationFile {
        guard let data = FileManager.default.contents(atPath: "\(directory)/\(path)") else {
            throw PostgresError(.migration, message: "Migration \(path) cannot be read.")
        }
        return MigrationFile(path: path, contents: Array(data))
    }

    private static func script(_ file: MigrationFile) throws(PostgresError) -> SQLScript {
        let fileName = file.path
        guard let text = String(validating: file.contents, as: UTF8.self) else {
            throw PostgresError(.migration, message: "Migration \(fileName) contains invalid UTF-8.")
        }
        let script = SQLScript(text)
        for statement in script.statements {
            guard let word = statement.refusedWord else { continue }
            throw PostgresError(
                .migration,
                message: """
                    Migration \(fileName) has \(word) in line \(statement.line), which cannot be part of a migration: each \
                    file runs within one transaction, and gets no data. Remove it, or insert the data with INSERT.
                    """
            )
        }
        return script
    }
}

extension SchemaFiles {
    /// Logs that the database is newer than the program, if it is.
    package func warnIfNewer(_ logger: Logger) {
        guard !newer.isEmpty else { return }
        logger.warning(
            "The database is newer than this program, which works with it if it is of the version before",
            metadata: ["migrations": "\(newer.joined(separator: " "))"]
        )
    }
}

/// A file that the database records as applied.
struct AppliedFile: Sendable, Equatable {
    /// The version of a migration; `nil` for a function or a view.
    let version: Int32?
    let name: String
    let checksum: [UInt8]
}

extension SchemaFiles {
    /// Returns the files that have not been applied, or whose function or view has changed.
    ///
    /// In a database that a newer program has migrated, nothing is pending: its functions suit this program, whereas those of this
    /// program would not suit the newer one.
    ///
    /// - Parameter applied: The applied files, migrations in the order of their versions.
    /// - Throws: ``PostgresError/Code/migration`` if an applied migration has changed, or is missing before others.
    func pending(applied: [AppliedFile]) throws(PostgresError) -> SchemaFiles {
        var count = 0
        var newer: [String] = []
        for done in applied {
            guard let version = done.version else { continue }
            defer { count += 1 }
            let fileName = Migration.fileName(version, done.name)
            guard count < migrations.count else {
                newer.append(fileName)
                continue
            }
            guard migrations[count].version == version, migrations[count].name == done.name else {
                throw PostgresError(
                    .migration,
                    message: "Migration \(fileName) has been applied, but its file is missing. Restore the file."
                )
            }
            guard migrations[count].script.checksum == done.checksum else {
                throw PostgresError(
                    .migration,
                    message: "Migration \(fileName) was changed after it had been applied. Restore it."
                )
            }
        }
        guard newer.isEmpty else { return SchemaFiles(newer: newer) }
        var current: [String: [UInt8]] = [:]
        for done in applied where done.version == nil { current[done.name] = done.checksum }
        return SchemaFiles(
            migrations: Array(migrations.dropFirst(count)),
            functions: functions.filter { current[$0.name] != $0.script.checksum }
        )
    }
}
