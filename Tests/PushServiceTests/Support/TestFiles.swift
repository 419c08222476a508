/// The paths of the repository.
enum TestFiles {
    /// The root folder of the package.
    static let repository = {
        let folders = #filePath.split(separator: "/").dropLast(4)
        return "/\(folders.joined(separator: "/"))"
    }()
    static let migrations = "\(repository)/migrations"
}
