internal import FoundationEssentials

/// One step of the database schema: a file `NNNN_name.sql`.
package struct Migration: Sendable, Equatable {
    /// From 1, without gaps.
    package let version: Int32
    package let name: String
    let script: [UInt8]

    package var fileName: String {
        let digits = String(version)
        return String(repeating: "0", count: max(0, 4 - digits.count)) + digits + "_\(name).sql"
    }

    /// The version and name that a file name states, or `nil` if it is no name of a migration.
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
    /// Files that do not end in `.sql` are nobody's business here.
    ///
    /// - Throws: ``PostgresError/Code/migration`` for a directory or a file that cannot be read, a `.sql` file with
    ///   another kind of name, two files of one version, and a gap.
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
                    message: "\(fileName) is not named like a migration (0001_first_step.sql)."
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

/// A migration as the database remembers it.
struct AppliedMigration: Sendable, Equatable {
    let version: Int32
    let name: String
    let checksum: String

    /// The migrations of `files` that have yet to be applied.
    ///
    /// - Parameters:
    ///   - checksums: of `files`, in their order.
    ///   - applied: in the order of their versions.
    /// - Throws: ``PostgresError/Code/migration`` when one that has been applied is missing from `files` or is another
    ///   one now.
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
                    message: "Migration \(fileName) has been applied, but its file is missing."
                )
            }
            guard index < checksums.count, checksums[index] == done.checksum else {
                throw PostgresError(.migration, message: "Migration \(fileName) was changed after it had been applied.")
            }
        }
        return Array(files.dropFirst(applied.count))
    }
}
