import FoundationEssentials
import Testing

/// The files of the repository.
package enum TestFiles {
    /// The root folder of the package.
    package static let repository = {
        let folders = #filePath.split(separator: "/").dropLast(3)
        return "/\(folders.joined(separator: "/"))"
    }()
    package static let migrations = "\(repository)/migrations"

    /// Returns a code block of a page.
    ///
    /// - Parameter start: The beginning of the block, or a text before it that ends with it.
    package static func code(in page: String, after start: String) throws -> String {
        let text = try String(contentsOfFile: "\(repository)/\(page)", encoding: .utf8)
        let start = try #require(text.firstRange(of: start), "\(page) has \(start)")
        let end = try #require(text[start.upperBound...].firstRange(of: "\n```\n"))
        return String(text[start.upperBound..<end.lowerBound])
    }

    /// Returns all code blocks of a page in a language.
    package static func codeBlocks(in page: String, language: String) throws -> [String] {
        let text = try String(contentsOfFile: "\(repository)/\(page)", encoding: .utf8)
        return text.split(separator: "\n```\(language)\n").dropFirst().map { part in
            part.firstRange(of: "\n```").map { String(part[..<$0.lowerBound]) } ?? String(part)
        }
    }

    /// Returns the texts of the Swift files in a folder of the repository and in the folders below it, except some of
    /// these.
    package static func swiftFiles(in folder: String, except others: [String] = []) throws -> [String] {
        let root = "\(repository)/\(folder)"
        let files = try #require(try? FileManager.default.subpathsOfDirectory(atPath: root))
        let ours = files.filter { file in file.hasSuffix(".swift") && !others.contains { file.hasPrefix("\($0)/") } }
        return try ours.map {
            try String(contentsOfFile: "\(root)/\($0)", encoding: .utf8)
        }
    }
}
