import FoundationEssentials
import Testing

/// The files of the repository.
enum TestFiles {
    /// The root folder of the package.
    static let repository = {
        let folders = #filePath.split(separator: "/").dropLast(4)
        return "/\(folders.joined(separator: "/"))"
    }()
    static let migrations = "\(repository)/migrations"

    /// Returns the texts of the Swift files in a folder of the repository and in the folders below it.
    static func swiftFiles(in folder: String) throws -> [String] {
        let root = "\(repository)/\(folder)"
        let files = try #require(try? FileManager.default.subpathsOfDirectory(atPath: root))
        return try files.filter { $0.hasSuffix(".swift") }.map {
            try String(contentsOfFile: "\(root)/\($0)", encoding: .utf8)
        }
    }
}
