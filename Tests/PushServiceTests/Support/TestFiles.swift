/// Where the repository is.
enum TestFiles {
    /// The folder of the package that these tests are of.
    static let repository = {
        let folders = #filePath.split(separator: "/").dropLast(4)
        return "/\(folders.joined(separator: "/"))"
    }()
    static let migrations = "\(repository)/migrations"
}
