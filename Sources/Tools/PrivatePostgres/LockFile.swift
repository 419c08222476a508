import FoundationEssentials
import Glibc

/// A lock file of PostgreSQL. Its first line is the process id of the server that created it.
///
/// PostgreSQL replaces a lock file whose process no longer exists. It does not if another process of the same user now
/// has that process id, which is common in a container, where process ids start again with each run.
enum LockFile {
    /// Returns the server that still runs on `data`, according to a lock file. A lock file of another process is
    /// removed.
    ///
    /// - Returns: The process id, or `nil` if no server runs on `data`.
    static func owner(_ path: String, data: String) -> pid_t? {
        guard let process = process(in: path), isAlive(process) else { return nil }
        // The working directory of a postmaster is its data directory.
        if workingDirectory(of: process) == ClusterLocation.realPath(data) { return process }
        _ = unlink(path)
        return nil
    }

    static func isAlive(_ process: pid_t) -> Bool {
        kill(process, 0) == 0 || errno == EPERM
    }

    private static func process(in path: String) -> pid_t? {
        let line = (try? String(contentsOfFile: path, encoding: .utf8))?.prefix { !$0.isNewline } ?? ""
        guard let process = pid_t(line), process > 0 else { return nil }
        return process
    }

    private static func workingDirectory(of process: pid_t) -> String? {
        ClusterLocation.realPath("/proc/\(process)/cwd")
    }
}
