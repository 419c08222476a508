/// One step of the database schema: a file `NNNN_name.sql` that defines tables and indexes, but no functions and no views.
package struct Migration: Sendable, Equatable {
    /// The number of the migration, from 1 without gaps.
    package let version: Int32
    package let name: String
    let script: SQLScript

    package var fileName: String { Self.fileName(version, name) }

    static func fileName(_ version: Int32, _ name: String) -> String {
        let digits = String(version)
        return String(repeating: "0", count: max(0, 4 - digits.count)) + digits + "_\(name).sql"
    }

    /// Returns the version and name in a file name; `nil` if the file name is not that of a migration.
    static func parse(fileName: String) -> (version: Int32, name: String)? {
        guard fileName.hasSuffix(".sql"), let separator = fileName.firstIndex(of: "_") else { return nil }
        let digits = fileName[..<separator]
        let name = String(fileName[fileName.index(after: separator)...].dropLast(4))
        guard digits.utf8.count == 4, digits.utf8.allSatisfy({ (0x30...0x39).contains($0) }),
            let version = Int32(digits), version > 0, SchemaFiles.isName(name)
        else { return nil }
        return (version, name)
    }
}

/// A file `functions/NAME.sql`: `CREATE OR REPLACE` of one function, and of the triggers that call it, or of one view.
package struct FunctionFile: Sendable, Equatable {
    package let name: String
    let script: SQLScript

    package var fileName: String { "functions/\(name).sql" }
}
