import FoundationEssentials
import Glibc

/// The actual directory of a cluster. Its user can access it, and its path is short enough for a Unix socket.
///
/// Usually this is the requested directory. If that is in a place that only root may enter, or has a very long path,
/// the cluster is in a new directory under `/var/tmp`, and the requested directory is a symbolic link to it.
struct ClusterLocation: Sendable, Equatable {
    /// The directory that contains the data directory and the socket. Only the cluster's user and root may enter it, so
    /// "trust" authentication admits only these.
    let root: String

    var data: String { "\(root)/data" }
    /// The directory for `initdb`, renamed when it is done. An interrupted run leaves nothing that looks like a
    /// cluster.
    var unfinishedData: String { "\(root)/data.new" }
    var postmasterLock: String { "\(data)/postmaster.pid" }
    var socketLock: String { "\(root)/.s.PGSQL.\(Self.port).lock" }

    /// The port in the socket's name. The server listens on no TCP port.
    static let port = 5432
    private static let temporaryDirectory = "/var/tmp"
    /// The maximum length in bytes: `sun_path` has 108 bytes, including a NUL (unix(7)).
    private static let longestSocketPath = 107

    /// Creates the directory, or finds the existing one.
    static func prepare(_ directory: String, user: ServiceUser) async throws -> ClusterLocation {
        let directory = absolute(directory)
        switch kind(of: directory) {
        case .link:
            if let target = realPath(directory), owner(of: target) == user.userID, await isUsable(target, user) {
                return ClusterLocation(root: target)
            }
            // Its target was deleted, or now belongs to another user.
            guard unlink(directory) == 0 else {
                throw failure("The symbolic link \(directory) has no usable target; removal failed")
            }
        case .directory where owner(of: directory) == user.userID:
            // A directory that was never usable holds no cluster and may be removed. rmdir fails for one that holds a
            // cluster that became inaccessible.
            if await isUsable(realPath(directory) ?? directory, user) {
                return ClusterLocation(root: realPath(directory) ?? directory)
            }
            guard rmdir(directory) == 0 else {
                throw failure("The user of the database in \(directory) cannot access it")
            }
        case .directory:
            guard rmdir(directory) == 0 else { throw failure("\(directory) belongs to another user") }
        case .other:
            throw PrivatePostgresError("\(directory) is not a directory. Remove it, or choose another directory.")
        case .nothing:
            break
        }
        return try await make(directory, user)
    }

    private static func make(_ directory: String, _ user: ServiceUser) async throws -> ClusterLocation {
        try makeParents(of: directory)
        guard mkdir(directory, 0o700) == 0 else { throw failure("Cannot create \(directory)") }
        let root = realPath(directory) ?? directory
        if chown(root, user.userID, user.groupID) == 0, await isUsable(root, user) {
            return ClusterLocation(root: root)
        }
        _ = rmdir(directory)

        var template = Array("\(temporaryDirectory)/push-server-postgres.XXXXXX".utf8CString)
        let made = template.withUnsafeMutableBufferPointer { buffer in
            buffer.baseAddress.flatMap { mkdtemp($0) }.map { String(cString: $0) }
        }
        guard let made else { throw failure("Cannot create a directory in \(temporaryDirectory)") }
        guard chown(made, user.userID, user.groupID) == 0, await isUsable(made, user), symlink(made, directory) == 0
        else { throw failure("Cannot use \(made) in place of \(directory)") }
        return ClusterLocation(root: made)
    }

    /// Returns whether the user can write to the directory and its path is short enough for a socket.
    private static func isUsable(_ root: String, _ user: ServiceUser) async -> Bool {
        guard "\(root)/.s.PGSQL.\(port)".utf8.count <= longestSocketPath else { return false }
        guard user.isAnother else { return access(root, W_OK | X_OK) == 0 }
        // A test as that user, because the permissions of all parent directories count.
        guard let test = Program.find("test") else { return false }
        let result = try? await Program(path: test, user: user).run(["-w", root, "-a", "-x", root])
        return result?.isSuccess ?? false
    }

    // MARK: Paths

    private enum Kind {
        case nothing, directory, link, other
    }

    private static func kind(of path: String) -> Kind {
        var status = stat()
        guard lstat(path, &status) == 0 else { return .nothing }
        switch status.st_mode & S_IFMT {
        case S_IFDIR: return .directory
        case S_IFLNK: return .link
        default: return .other
        }
    }

    private static func owner(of path: String) -> uid_t? {
        var status = stat()
        return stat(path, &status) == 0 ? status.st_uid : nil
    }

    private static func makeParents(of path: String) throws(PrivatePostgresError) {
        let parts = path.split(separator: "/").dropLast()
        var parent = ""
        for part in parts {
            parent += "/\(part)"
            guard mkdir(parent, 0o755) == 0 || errno == EEXIST else { throw failure("Cannot create \(parent)") }
        }
    }

    static func absolute(_ path: String) -> String {
        path.hasPrefix("/") ? path : "\(FileManager.default.currentDirectoryPath)/\(path)"
    }

    static func realPath(_ path: String) -> String? {
        guard let resolved = realpath(path, nil) else { return nil }
        defer { free(resolved) }
        return String(cString: resolved)
    }

    private static func failure(_ what: String) -> PrivatePostgresError {
        PrivatePostgresError("\(what): \(String(cString: strerror(errno))).")
    }
}
