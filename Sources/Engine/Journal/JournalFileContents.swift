package import EventLoop
import FoundationEssentials
import Glibc

/// The contents of one file, for commands: a file that a server writes, a damaged one, or a rejected record.
package struct JournalFileContents: Sendable {
    /// The most bytes that are written to a new file at a time.
    private static let maximumWrite = 1 << 20

    package enum Part: Sendable {
        /// An intact record of `length` bytes.
        case record(JournalRecord, offset: Int, length: Int)
        /// Bytes that are no record. They are damage, or a write that a crash cut short and that was not acknowledged.
        case gap(Range<Int>, isDamage: Bool)
    }

    private let file: JournalFile
    /// The time of the file's last change.
    private let changedAt: Date

    /// Opens a file of a journal for reading. Takes no lock: a file that a server writes may grow meanwhile.
    package init(path: String) throws(SystemError) {
        let descriptor = FileDescriptor(owning: open(path, O_RDONLY | O_CLOEXEC))
        guard descriptor.rawValue >= 0 else { throw SystemError(call: "open \(path)") }
        var status = stat()
        guard fstat(descriptor.rawValue, &status) == 0 else { throw SystemError(call: "fstat \(path)") }
        guard status.st_mode & S_IFMT == S_IFREG else { throw SystemError(call: "open \(path)", code: EISDIR) }
        changedAt = Date(timeIntervalSince1970: Double(status.st_mtim.tv_sec))
        let name = path.split(separator: "/").last.map(String.init) ?? path
        file = JournalFile(name: name, size: Int(status.st_size), descriptor: descriptor)
    }

    /// Calls `body` for each record and each gap, in their order.
    package func forEach(_ body: (Part) throws -> Void) throws {
        guard !isRejectedRecord else {
            let payload = try FileOperations.system.read(file.descriptor.rawValue, EncodedRecord.maximumPayload, 0)
            return try body(.record(JournalRecord(time: changedAt, payload: payload), offset: 0, length: file.size))
        }
        var reader = RecordReader(file, .system)
        let contents = try reader.contents()
        var gaps = contents.gaps[...]
        var offset = 0
        while offset < contents.end {
            if let gap = gaps.first, gap.range.lowerBound == offset {
                try body(.gap(gap.range, isDamage: gap.isDamage))
                offset = gap.range.upperBound
                gaps.removeFirst()
            } else {
                // A record that can no longer be read: the file has changed.
                guard let (record, next) = try reader.record(at: offset) else { return }
                try body(.record(record, offset: offset, length: next - offset))
                offset = next
            }
        }
        for gap in gaps { try body(.gap(gap.range, isDamage: gap.isDamage)) }
    }

    /// Appends the intact records to a journal, in a file of their own, which a server of that directory adopts and
    /// replays. They are on disk when this returns.
    ///
    /// - Parameter directory: The directory of the journal, which must exist.
    /// - Returns: The number of records. Without any, no file is created.
    /// - Throws: `SystemError` when the file cannot be read or written. Then no record or only some are replayed.
    package func replay(in directory: String) throws -> Int {
        guard access(directory, F_OK) == 0 else { throw SystemError(call: "access \(directory)") }
        var (count, size) = (0, 0)
        try forEach { part in
            guard case .record(let record, _, _) = part else { return }
            count += 1
            size += EncodedRecord.length(payload: record.payload.count)
        }
        guard count > 0 else { return 0 }
        let new = try JournalDirectory(directory).createFile(size: size, .system)
        var owner = stat()
        // A file that an administrator adds must be readable by the server.
        if geteuid() == 0, stat(directory, &owner) == 0 {
            guard fchown(new.descriptor.rawValue, owner.st_uid, owner.st_gid) == 0 else {
                throw SystemError(call: "fchown")
            }
        }
        var bytes: [UInt8] = []
        var written = 0
        func write() throws(SystemError) {
            try FileOperations.system.write(new.descriptor.rawValue, bytes, written)
            written += bytes.count
            bytes.removeAll(keepingCapacity: true)
        }
        try forEach { part in
            guard case .record(let record, _, _) = part else { return }
            // The records that are read now may be more than before, if a server writes the file.
            guard written + bytes.count + EncodedRecord.length(payload: record.payload.count) <= size else { return }
            EncodedRecord.append(record, durable: 0, to: &bytes)
            if bytes.count >= Self.maximumWrite { try write() }
        }
        try write()
        try FileOperations.system.sync(new.descriptor.rawValue)
        return count
    }

    /// Deletes the file if it is in `rejected/` of a journal.
    ///
    /// - Returns: Whether it was deleted.
    package static func removeRejected(_ path: String, in directory: String) -> Bool {
        guard let file = realpath(path), let rejected = realpath("\(directory)/rejected"),
            file.hasPrefix("\(rejected)/")
        else { return false }
        return unlink(file) == 0
    }

    private static func realpath(_ path: String) -> String? {
        guard let resolved = Glibc.realpath(path, nil) else { return nil }
        defer { free(resolved) }
        return String(cString: resolved)
    }

    /// Whether the file is a record that the database has rejected, which is kept without its header.
    private var isRejectedRecord: Bool { file.name.hasSuffix(JournalDirectory.rejectedSuffix) }
}
