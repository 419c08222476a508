internal import EventLoop
internal import Glibc

/// The directory of a journal: which files it has, how large they are, and whose they are.
///
/// `*.journal` hold records. A server locks (`flock`) the files that it writes or replays, for as long as it does: the kernel releases the
/// locks of a process that dies. A new file is locked under another name before it gets its own, so that it is never seen unlocked.
struct JournalDirectory: Sendable {
    static let suffix = ".journal"
    private static let newSuffix = ".new"
    /// A file that was left before it got its name is removed after so many seconds.
    private static let abandonedAfter = 60

    let path: String
    var rejectedPath: String { "\(path)/rejected" }

    /// Opens a directory, which is made if it is missing, and makes it the owner's alone.
    init(_ path: String) throws(SystemError) {
        self.path = path
        try make()
        // mkdir and open both may succeed where no file can be made.
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

    /// Has the directory read by its owner only, if that is this process's user. What an administrator has mounted stays as it is.
    ///
    /// - Returns: Whether only the owner can list the directory. The files are the owner's alone in any case.
    func restrict() -> Bool {
        var status = stat()
        guard stat(path, &status) == 0, status.st_mode & 0o077 != 0 else { return true }
        // A sticky directory, like /tmp, is everybody's.
        return status.st_uid == geteuid() && status.st_mode & S_ISVTX == 0 && chmod(path, 0o700) == 0
    }

    /// Makes a file of `size` bytes that is on disk, locked and empty; and the directory, if it has been deleted.
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

    /// Locks and opens a file whose owner has gone; `nil` if it has an owner or is no longer there.
    func adoptFile(_ name: String) -> JournalFile? {
        let rawValue = open("\(path)/\(name)", O_RDWR | O_CLOEXEC | O_NOFOLLOW)
        guard rawValue >= 0 else { return nil }
        let descriptor = FileDescriptor(owning: rawValue)
        guard flock(rawValue, LOCK_EX | LOCK_NB) == 0 else { return nil }
        var opened = stat()
        var named = stat()
        // Its owner may have removed it before its lock was free.
        guard fstat(rawValue, &opened) == 0, stat("\(path)/\(name)", &named) == 0, opened.st_ino == named.st_ino,
            opened.st_mode & S_IFMT == S_IFREG
        else { return nil }
        return JournalFile(name: name, size: Int(opened.st_size), descriptor: descriptor)
    }

    /// The names of the files that hold records, the oldest first. Removes what was left by a server that died while it made a file.
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

    /// The number of records that the database has rejected.
    func rejectedCount() -> Int { Self.names(in: rejectedPath).count }

    /// The bytes of all files, of all servers that share the directory.
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

    /// Keeps a record that the database has rejected. The same record has the same name, so that it is kept once.
    func keepRejected(_ payload: [UInt8], name: String, _ operations: FileOperations) throws(SystemError) {
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
        guard let directory = opendir(path) else { return [] }
        defer { closedir(directory) }
        var names: [String] = []
        while let entry = readdir(directory) {
            let name = withUnsafeBytes(of: entry.pointee.d_name) {
                String(decoding: $0.prefix { $0 != 0 }, as: UTF8.self)
            }
            if !name.hasPrefix(".") { names.append(name) }
        }
        return names
    }

    /// Sorts by time; no two servers choose the same.
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
