import Dispatch
package import EventLoop
import FoundationEssentials
import Glibc
import Locking
package import Logging

/// The records of the last minutes in files, so that they can be read again after what they were stored in has lost them.
///
/// Nothing waits for the disk: records are written behind, and are not synced. A crash of the process loses hardly any, one of the
/// machine the last seconds. The files have the format of a ``Journal``, whose records they are not.
package final class RecentRecords: @unchecked Sendable {
    // Ownership: `inbox` is locked. `active` and `failure` are accessed on the queue only.

    /// The size of a file. It is short, so that reading a file takes little memory.
    private static let fileSize = 8 << 20
    /// The time after which the next file begins, so that a file can be deleted when its records are old.
    private static let fileTime = Duration.seconds(60)
    /// The most bytes that may wait for the disk. Further records are dropped.
    private static let maximumWaiting = 16 << 20

    /// The records that wait to be written.
    private struct Inbox {
        var bytes: [UInt8] = []
        /// The lengths of the records.
        var lengths: [Int] = []
        var dropped = 0
        /// A block on the queue is going to take the records.
        var isScheduled = false
    }

    /// The file to which records are appended.
    private struct Active {
        let file: JournalFile
        var end = 0
        let since = MonotonicTime.now
    }

    private let directory: JournalDirectory
    private let retention: Duration
    private let maximumBytes: Int
    private let operations: FileOperations
    private let logger: Logger
    private let queue = DispatchQueue(label: "recent-records")
    private let inbox = Locked(Inbox())
    private var active: Active?
    /// The failure that was logged last, so that it is logged once.
    private var failure: String?

    /// Blocks the caller.
    ///
    /// - Parameters:
    ///   - path: The directory, which is created if it is missing. Servers may share it.
    ///   - retention: How long records are kept at least, unless they take more than `maximumBytes`.
    ///   - maximumBytes: The size limit of all files in the directory, including those of other servers. The oldest are deleted.
    /// - Throws: `SystemError` when the directory cannot be used.
    package init(
        path: String,
        retention: Duration,
        maximumBytes: Int,
        operations: FileOperations = .system,
        logger: Logger
    ) throws(SystemError) {
        directory = try JournalDirectory(path)
        self.retention = retention
        self.maximumBytes = maximumBytes
        var operations = operations
        operations.sync = { _ in }
        self.operations = operations
        self.logger = logger
    }

    /// Appends a record, some time later.
    package func append(_ record: JournalRecord) {
        let length = EncodedRecord.length(payload: record.payload.count)
        let isFirst = inbox.withLock { inbox in
            guard inbox.bytes.count + length <= Self.maximumWaiting, length <= Self.fileSize else {
                inbox.dropped += 1
                return false
            }
            EncodedRecord.append(record, durable: 0, to: &inbox.bytes)
            inbox.lengths.append(length)
            guard !inbox.isScheduled else { return false }
            inbox.isScheduled = true
            return true
        }
        if isFirst { queue.async { self.write() } }
    }

    private func write() {
        let (bytes, lengths, dropped) = inbox.withLock { inbox in
            defer { inbox = Inbox() }
            return (inbox.bytes, inbox.lengths, inbox.dropped)
        }
        if dropped > 0 { report("\(dropped) calls dropped: the disk is too slow") }
        var start = 0
        var next = lengths.startIndex
        do {
            while next < lengths.endIndex {
                var active = try activeFile(for: lengths[next])
                var end = start
                while next < lengths.endIndex, active.end + end - start + lengths[next] <= active.file.size {
                    end += lengths[next]
                    next += 1
                }
                try operations.write(active.file.descriptor.rawValue, Array(bytes[start..<end]), active.end)
                active.end += end - start
                self.active = active
                start = end
            }
            if dropped == 0 { failure = nil }
        } catch {
            report("\(error)")
            closeFile()
        }
    }

    /// Returns the file to which a record of `length` bytes is appended.
    private func activeFile(for length: Int) throws(SystemError) -> Active {
        if let active, active.end + length <= active.file.size, MonotonicTime.now - active.since < Self.fileTime,
            active.file.isLinked
        {
            return active
        }
        closeFile()
        makeRoom()
        let active = Active(file: try directory.createFile(size: Self.fileSize, operations))
        self.active = active
        return active
    }

    private func closeFile() {
        active?.file.truncate(active?.end ?? 0)
        active = nil
    }

    /// Deletes the oldest files until another one fits.
    private func makeRoom() {
        for name in directory.fileNames() {
            guard directory.totalSize() + Self.fileSize > maximumBytes else { return }
            directory.remove(name)
        }
    }

    private func report(_ failure: String) {
        guard failure != self.failure else { return }
        self.failure = failure
        logger.warning(
            "Recent calls not kept: they cannot be stored again if PostgreSQL loses them now",
            metadata: ["directory": "\(directory.path)", "error": "\(failure)"]
        )
    }

    /// Deletes the files whose records are all older than the retention.
    package func removeOld() async {
        await onQueue {
            if let active = self.active, MonotonicTime.now - active.since >= Self.fileTime { self.closeFile() }
            for name in self.directory.fileNames() where name != self.active?.file.name {
                var status = stat()
                guard stat("\(self.directory.path)/\(name)", &status) == 0 else { continue }
                let age = Duration.seconds(time(nil) - status.st_mtim.tv_sec)
                if age > self.retention { self.directory.remove(name) }
            }
        }
    }

    /// Writes the waiting records, and returns the names of the files, oldest first.
    package func fileNames() async -> [String] {
        await onQueue {
            self.write()
            return self.directory.fileNames()
        }
    }

    /// Returns the intact records of a file; none if it has been deleted.
    package func records(ofFile name: String) async -> [JournalRecord] {
        await onQueue {
            var records: [JournalRecord] = []
            do {
                try JournalFileContents(path: "\(self.directory.path)/\(name)").forEach { part in
                    if case .record(let record, _, _) = part { records.append(record) }
                }
            } catch let error where (error as? SystemError)?.code != ENOENT {
                self.report("\(error)")
            } catch {}
            return records
        }
    }

    private func onQueue<Value: Sendable>(_ body: @escaping @Sendable () -> Value) async -> Value {
        await withCheckedContinuation { continuation in
            queue.async { continuation.resume(returning: body()) }
        }
    }
}
