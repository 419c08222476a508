internal import Glibc

/// Where a cluster really is: a directory that its user can reach, short enough to hold a Unix socket.
///
/// Usually that is the directory that was asked for. It is not when root runs us from a place that only root may enter,
/// or one with a very long path: then it is a fresh directory under `/var/tmp`, and the one that was asked for is a
/// symbolic link to it.
struct ClusterLocation: Sendable, Equatable {
    /// Holds the data directory and the socket. Only the cluster's user may enter, so "trust" means that user and root.
    let root: String

    var data: String { "\(root)/data" }
    /// Where `initdb` works until it is done: a run that was cut short leaves nothing that looks like a cluster.
    var unfinishedData: String { "\(root)/data.new" }
    var postmasterLock: String { "\(data)/postmaster.pid" }
    var socketLock: String { "\(root)/.s.PGSQL.\(Self.port).lock" }

    /// Part of the socket's name only: the server listens on no TCP port.
    static let port = 5432
    private static let temporaryDirectory = "/var/tmp"
    /// `sun_path` holds 108 bytes, of which one is a NUL (unix(7)).
    private static let longestSocketPath = 107

    /// Makes the directory, or finds the one that was made before.
    static func prepare(_ directory: String, user: ServiceUser) async throws -> ClusterLocation {
        let directory = absolute(directory)
        switch kind(of: directory) {
        case .link:
            if let target = realPath(directory), owner(of: target) == user.userID, await isUsable(target, user) {
                return ClusterLocation(root: target)
            }
            // Its target was cleaned away, or is somebody else's by now.
            guard unlink(directory) == 0 else { throw failure("The link \(directory) leads nowhere") }
        case .directory where owner(of: directory) == user.userID:
            // A path that is too long cannot have held a cluster; one that cannot be reached any more may.
            if await isUsable(realPath(directory) ?? directory, user) {
                return ClusterLocation(root: realPath(directory) ?? directory)
            }
            guard rmdir(directory) == 0 else {
                throw failure("The database in \(directory) cannot be reached by its user")
            }
        case .directory:
            guard rmdir(directory) == 0 else { throw failure("\(directory) belongs to another user") }
        case .other:
            throw PrivatePostgresError("\(directory) is no directory.")
        case .nothing:
            break
        }
        return try await make(directory, user)
    }

    private static func make(_ directory: String, _ user: ServiceUser) async throws -> ClusterLocation {
        try makeParents(of: directory)
        guard mkdir(directory, 0o700) == 0 else { throw failure("\(directory) cannot be made") }
        let root = realPath(directory) ?? directory
        if chown(root, user.userID, user.groupID) == 0, await isUsable(root, user) {
            return ClusterLocation(root: root)
        }
        _ = rmdir(directory)

        var template = Array("\(temporaryDirectory)/push-server-postgres.XXXXXX".utf8CString)
        let made = template.withUnsafeMutableBufferPointer { buffer in
            buffer.baseAddress.flatMap { mkdtemp($0) }.map { String(cString: $0) }
        }
        guard let made else { throw failure("No directory can be made in \(temporaryDirectory)") }
        guard chown(made, user.userID, user.groupID) == 0, await isUsable(made, user), symlink(made, directory) == 0
        else { throw failure("\(made) cannot be used in place of \(directory)") }
        return ClusterLocation(root: made)
    }

    /// Whether the user can write there, and a socket fits in.
    private static func isUsable(_ root: String, _ user: ServiceUser) async -> Bool {
        guard "\(root)/.s.PGSQL.\(port)".utf8.count <= longestSocketPath else { return false }
        guard user.isAnother else { return access(root, W_OK | X_OK) == 0 }
        // The kernel knows best what that user may do: every directory above counts.
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
            guard mkdir(parent, 0o755) == 0 || errno == EEXIST else { throw failure("\(parent) cannot be made") }
        }
    }

    static func absolute(_ path: String) -> String {
        guard !path.hasPrefix("/"), let current = getcwd(nil, 0) else { return path }
        defer { free(current) }
        return "\(String(cString: current))/\(path)"
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
