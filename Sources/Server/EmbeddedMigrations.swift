import CEmbedded
package import Postgres

/// The migrations that are a part of the program, so that it runs from any folder.
package enum EmbeddedMigrations {
    /// The files, in the order of their paths.
    package static var files: [MigrationFile] {
        var files: [MigrationFile] = []
        while let file = embedded_migration_at(files.count)?.pointee {
            files.append(
                MigrationFile(
                    path: String(cString: file.path),
                    contents: Array(UnsafeBufferPointer(start: file.bytes, count: file.count))
                )
            )
        }
        return files
    }
}

extension Migrator {
    /// Creates the migrator of the program.
    ///
    /// - Parameter directory: The folder of the SQL files, which are read once; `nil` for those of the program.
    /// - Throws: ``PostgresError/Code/migration`` for files that cannot be read or applied.
    package init(ofProgramOr directory: String?) throws(PostgresError) {
        if let directory {
            try self.init(directory: directory)
        } else {
            try self.init(files: EmbeddedMigrations.files)
        }
    }
}
