import EventLoop
import FoundationEssentials
import Glibc

/// A journal's directory, with the names, sizes and owners of its files.
///
/// Files named `*.journal` hold records. A server locks (`flock`) a file for as long as it writes or replays it. The
/// kernel releases the locks of a process that dies. A new file is locked under a temporary name before it gets its
/// own, so that no server ever finds it unlocked.
struct JournalDirectory: Sendable {
    static let suffix = ".journal"
    /// The end of the names of rejected records.
    static let rejectedSuffix = ".json"
    private static let newSuffix = ".new"
    /// The age in seconds at which a file that still has its temporary name is removed.
    private static let abandonedAfter = 60

    let path: String
    var rejectedPath: String { "\(path)/rejected" }

    /// Opens a directory, and creates it if it is missing.
    init(_ path: String) throws(SystemError) {
        self.path = path
        try make()
        // mkdir and open can succeed even if no file can be created in the directory.
        guard access(path, R_OK | W_OK | X_OK) == 0 else { throw SystemError(call: "access \(path)") }
    }

    private func make() throws(SystemError) {
        try Self.make(path)
        try Self.make(rejectedPath)
    }

    private static func make(_ path: String) throws(SystemError) {
        if mkdir(path, 0o700) == 0 { return }
        if errno == ENOENT, let slash = path.lastIndex(of: "/"), slash > path.startIndex {
            try make(String(path[..<slash]))
            guard mkdir(path, 0o700) == 0 else { throw SystemError(call: "mkdir \(path)") }
            return
        }
        guard errno == EEXIST else { throw SystemError(call: "mkdir \(path)") }
    }

    /// Makes the directory accessible to its owner only, if this process's user is the owner. A directory mounted by an
    /// administrator stays as it is.
    ///
    /// - Returns: Whether only the owner can list the directory. Its files are always accessible to their owner only.
    func restrict() -> Bool {
        var status = stat()
        guard stat(path, &status) == 0, status.st_mode & 0o077 != 0 else { return true }
        // A sticky directory, such as /tmp, is shared by all users.
        return status.st_uid == geteuid() && status.st_mode & S_ISVTX == 0 && chmod(path, 0o700) == 0
    }

    /// Creates a file of `size` bytes that is on disk, locked and empty. Creates the directory if it has been deleted.
    func createFile(size: Int, _ operations: FileOperations) throws(SystemError) -> JournalFile {
        try make()
        let name = Self.newName()
        let temporary = "\(path)/\(name)\(Self.newSuffix)"
        let rawValue = open(temporary, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0o600)
        guard rawValue >= 0 else { throw SystemError(call: "open \(temporary)") }
        let descriptor = FileDescriptor(owning: rawValue)
        do throws(SystemError) {
            guard flock(rawValue, LOCK_EX | LOCK_NB) == 0 else { throw SystemError(call: "flock") }
            try operations.allocate(rawValue, size)
            try operations.sync(rawValue)
            guard rename(temporary, "\(path)/\(name)") == 0 else { throw SystemError(call: "rename") }
            try sync(path)
        } catch {
            unlink(temporary)
            unlink("\(path)/\(name)")
            throw error
        }
        return JournalFile(name: name, size: size, descriptor: descriptor)
    }

    /// Locks and opens a file whose owner has died, or returns `nil` if it has an owner or no longer exists.
    ///
    /// - Throws: `SystemError` when the file cannot be opened, for example because another user owns it.
    func adoptFile(_ name: String) throws(SystemError) -> JournalFile? {
        let rawValue = open("\(path)/\(name)", O_RDWR | O_CLOEXEC | O_NOFOLLOW)
        if rawValue < 0, errno == ENOENT { return nil }
        guard rawValue >= 0 else { throw SystemError(call: "open") }
        let descriptor = FileDescriptor(owning: rawValue)
        guard flock(rawValue, LOCK_EX | LOCK_NB) == 0 else { return nil }
        var opened = stat()
        var named = stat()
        // The owner may have removed the file before releasing its lock.
        guard fstat(rawValue, &opened) == 0, stat("\(path)/\(name)", &named) == 0, opened.st_ino == named.st_ino,
            opened.st_mode & S_IFMT == S_IFREG
        else { return nil }
        return JournalFile(name: name, size: Int(opened.st_size), descriptor: descriptor)
    }

    /// Returns the names of the files that hold records, oldest first. Removes files that a server left when it died
    /// while creating them.
    func fileNames() -> [String] {
        var names: [String] = []
        for name in Self.names(in: path) {
            if name.hasSuffix(Self.suffix) {
                names.append(name)
            } else if name.hasSuffix(Self.newSuffix) {
                removeAbandoned("\(path)/\(name)")
            }
        }
        return names.sorted()
    }

    /// Returns the number of files in `rejected/`: records that the database has rejected, and damaged files.
    func rejectedCount() -> Int { Self.names(in: rejectedPath).count }

    /// Returns the size in bytes of all files, including those of other servers that share the directory.
    func totalSize() -> Int {
        [path, rejectedPath].reduce(0) { total, folder in
            Self.names(in: folder).reduce(total) { total, name in
                var status = stat()
                guard lstat("\(folder)/\(name)", &status) == 0, status.st_mode & S_IFMT == S_IFREG else { return total }
                return total + Int(status.st_size)
            }
        }
    }

    func remove(_ name: String) {
        unlink("\(path)/\(name)")
    }

    /// Moves a damaged file whose intact records have been replayed to `rejected/`.
    func reject(_ name: String) throws(SystemError) {
        try make()
        guard rename("\(path)/\(name)", "\(rejectedPath)/\(name)") == 0 || errno == ENOENT else {
            throw SystemError(call: "rename")
        }
        try sync(rejectedPath)
    }

    /// Stores a record that the database has rejected. The name is the same on each attempt, so that the record is kept
    /// once.
    func storeRejected(_ payload: [UInt8], name: String, _ operations: FileOperations) throws(SystemError) {
        let final = "\(rejectedPath)/\(name)"
        let temporary = "\(path)/\(name)\(Self.newSuffix)"
        let rawValue = open(temporary, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0o600)
        guard rawValue >= 0 else { throw SystemError(call: "open \(temporary)") }
        let descriptor = FileDescriptor(owning: rawValue)
        do throws(SystemError) {
            try operations.write(descriptor.rawValue, payload, 0)
            try operations.sync(descriptor.rawValue)
            guard rename(temporary, final) == 0 else { throw SystemError(call: "rename") }
            try sync(rejectedPath)
        } catch {
            unlink(temporary)
            throw error
        }
    }

    private func sync(_ path: String) throws(SystemError) {
        let rawValue = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC)
        guard rawValue >= 0 else { throw SystemError(call: "open \(path)") }
        let descriptor = FileDescriptor(owning: rawValue)
        guard fsync(descriptor.rawValue) == 0 else { throw SystemError(call: "fsync \(path)") }
    }

    private func removeAbandoned(_ path: String) {
        var status = stat()
        guard lstat(path, &status) == 0, time(nil) - status.st_mtim.tv_sec > Self.abandonedAfter else { return }
        unlink(path)
    }

    private static func names(in path: String) -> [String] {
        let names = try? FileManager.default.contentsOfDirectory(atPath: path)
        return (names ?? []).filter { !$0.hasPrefix(".") }
    }

    /// Returns a name that sorts by time and has a random part, so that two servers do not choose the same name.
    private static func newName() -> String {
        var now = timespec()
        clock_gettime(CLOCK_REALTIME, &now)
        let nanoseconds = UInt64(clamping: now.tv_sec) &* 1_000_000_000 &+ UInt64(clamping: now.tv_nsec)
        func digits(_ number: some FixedWidthInteger, _ width: Int) -> String {
            let text = String(number, radix: 16)
            return String(repeating: "0", count: max(0, width - text.count)) + text
        }
        return "\(digits(nanoseconds, 16))-\(digits(UInt32.random(in: .min ... .max), 8))\(suffix)"
    }
}
