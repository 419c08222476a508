internal import Glibc

/// A lock file of PostgreSQL's: its first line is the process id of the server that made it.
///
/// PostgreSQL takes over a lock whose process is gone. It does not when that number belongs to another process of the
/// same user by now, which is what happens in a container: there the numbers start again with each run.
enum LockFile {
    /// The server that still runs on `data`, according to a lock file; one that means something else is removed.
    ///
    /// - Returns: a process id, or `nil` if nothing is in the way.
    static func owner(_ path: String, data: String) -> pid_t? {
        guard let process = process(in: path), isAlive(process) else { return nil }
        // A postmaster works in its data directory.
        if workingDirectory(of: process) == ClusterLocation.realPath(data) { return process }
        _ = unlink(path)
        return nil
    }

    static func isAlive(_ process: pid_t) -> Bool {
        kill(process, 0) == 0 || errno == EPERM
    }

    private static func process(in path: String) -> pid_t? {
        guard let file = fopen(path, "r") else { return nil }
        defer { fclose(file) }
        var line = [CChar](repeating: 0, count: 32)
        guard fgets(&line, Int32(line.count), file) != nil else { return nil }
        let digits = line.prefix { $0 >= 0x30 && $0 <= 0x39 }.map { UInt8(bitPattern: $0) }
        guard let process = pid_t(String(decoding: digits, as: UTF8.self)), process > 0 else { return nil }
        return process
    }

    private static func workingDirectory(of process: pid_t) -> String? {
        ClusterLocation.realPath("/proc/\(process)/cwd")
    }
}
