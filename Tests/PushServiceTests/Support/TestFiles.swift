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

    /// Returns the texts of the Swift files in a folder of the repository and in the folders below it, except some of
    /// these.
    static func swiftFiles(in folder: String, except others: [String] = []) throws -> [String] {
        let root = "\(repository)/\(folder)"
        let files = try #require(try? FileManager.default.subpathsOfDirectory(atPath: root))
        let ours = files.filter { file in file.hasSuffix(".swift") && !others.contains { file.hasPrefix("\($0)/") } }
        return try ours.map {
            try String(contentsOfFile: "\(root)/\($0)", encoding: .utf8)
        }
    }
}
