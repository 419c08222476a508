internal import FoundationEssentials

/// Reads the small files that settings name.
package enum FileContents {
    /// The bytes of a file, or `nil` when it cannot be read.
    package static func read(_ path: String) -> [UInt8]? {
        FileManager.default.contents(atPath: path).map { [UInt8]($0) }
    }
}
