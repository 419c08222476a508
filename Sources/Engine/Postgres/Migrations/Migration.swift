import FoundationEssentials

/// One step of the database schema: a file `NNNN_name.sql`.
package struct Migration: Sendable, Equatable {
    /// The number of the migration, from 1 without gaps.
    package let version: Int32
    package let name: String
    let script: [UInt8]

    package var fileName: String {
        let digits = String(version)
        return String(repeating: "0", count: max(0, 4 - digits.count)) + digits + "_\(name).sql"
    }

    /// Returns the version and name in a file name; `nil` if the file name is not that of a migration.
    static func parse(fileName: String) -> (version: Int32, name: String)? {
        guard fileName.hasSuffix(".sql"), let separator = fileName.firstIndex(of: "_") else { return nil }
        let digits = fileName[..<separator]
        let name = fileName[fileName.index(after: separator)...].dropLast(4)
        guard digits.utf8.count == 4, digits.utf8.allSatisfy({ (0x30...0x39).contains($0) }),
            let version = Int32(digits)
        else { return nil }
        let isPlain = name.utf8.allSatisfy { (0x61...0x7A).contains($0) || (0x30...0x39).contains($0) || $0 == 0x5F }
        return version > 0 && !name.isEmpty && isPlain ? (version, String(name)) : nil
    }

    /// Reads the migrations of a directory, in order. Blocks.
    ///
    /// Ignores files that do not end in `.sql`.
    ///
    /// - Throws: ``PostgresError/Code/migration`` for a directory or file that cannot be read, a `.sql` file with an
    ///   invalid name, two files of one version, or a gap.
    static func read(directory: String) throws(PostgresError) -> [Migration] {
        let names: [String]
        do {
            names = try FileManager.default.contentsOfDirectory(atPath: directory)
        } catch {
            throw PostgresError(.migration, message: "The directory of migrations cannot be read.", detail: "\(error)")
        }
        var migrations: [Migration] = []
        for fileName in names.filter({ $0.hasSuffix(".sql") }).sorted() {
            guard let (version, name) = parse(fileName: fileName) else {
                throw PostgresError(
                    .migration,
                    message: "Invalid migration file name: \(fileName). Use a name such as 0001_first_step.sql."
                )
            }
            if let previous = migrations.last, previous.version == version {
                throw PostgresError(.migration, message: "\(previous.fileName) and \(fileName) have the same version.")
            }
            guard version == migrations.count + 1 else {
                throw PostgresError(
                    .migration,
                    message: "Migration \(migrations.count + 1) is missing before \(fileName)."
                )
            }
            guard let script = FileManager.default.contents(atPath: "\(directory)/\(fileName)") else {
                throw PostgresError(.migration, message: "Migration \(fileName) cannot be read.")
            }
            migrations.append(Migration(version: version, name: name, script: Array(script)))
        }
        return migrations
    }
}

/// A migration that the database records as applied.
struct AppliedMigration: Sendable, Equatable {
    let version: Int32
    let name: String
    let checksum: String

    /// Returns the migrations of `files` that have not been applied.
    ///
    /// - Parameters:
    ///   - checksums: The checksums of `files`, in their order.
    ///   - applied: The applied migrations, in the order of their versions.
    /// - Throws: ``PostgresError/Code/migration`` if an applied migration is missing from `files` or has changed.
    static func pending(
        _ files: [Migration],
        checksums: [String],
        applied: [AppliedMigration]
    ) throws(PostgresError) -> [Migration] {
        for (index, done) in applied.enumerated() {
            let fileName = Migration(version: done.version, name: done.name, script: []).fileName
            guard index < files.count, files[index].version == done.version, files[index].name == done.name else {
                throw PostgresError(
                    .migration,
                    message: "Migration \(fileName) has been applied, but its file is missing. Restore the file."
                )
            }
            guard index < checksums.count, checksums[index] == done.checksum else {
                throw PostgresError(
                    .migration,
                    message: "Migration \(fileName) was changed after it had been applied. Restore it."
                )
            }
        }
        return Array(files.dropFirst(applied.count))
    }
}
