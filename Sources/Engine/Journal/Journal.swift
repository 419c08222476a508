import Dispatch
package import EventLoop
package import FoundationEssentials
import Glibc
import Locking
package import Logging

/// A queue of opaque records on disk that wait to be stored elsewhere.
///
/// ``append(_:_:)`` completes when the record is on disk. Records that arrive during one `fdatasync` share the next. A
/// reader receives the records in batches and confirms each batch. A file is deleted when all its records are
/// confirmed. Files of dead servers in the same directory are replayed as well. Confirmations are kept in memory only,
/// so records are replayed again after a crash: storing a record must be idempotent.
///
/// No call blocks its caller, except opening a journal. Appending and replaying have a serial queue each, so that a
/// hanging disk blocks neither a loop nor the other queue.
package final class Journal: @unchecked Sendable {
    // Ownership: `inbox` and `state` are locked. `active` is read and changed on the queue `writing` only.

    /// The smallest file worth creating, in bytes, when the size limit is nearly reached.
    private static let smallestFile = 4096
    /// The most bytes that may wait for the disk. Callers wait for up to three seconds, and a working disk writes more
    /// than this in that time.
    private static let maximumWaiting = 16 << 20
    /// The most bytes that one `fdatasync` covers, unless one record is longer.
    private static let maximumGroup = 4 << 20
    /// The size in bytes at which a batch ends.
    private static let maximumBatch = 1 << 20

    private struct Entry {
        let record: JournalRecord
        let completion: @Sendable (Result<Void, JournalError>) -> Void

        var length: Int { EncodedRecord.length(payload: record.payload.count) }
    }

    /// The records that wait to be written.
    private struct Inbox {
        var entries: [Entry] = []
        var bytes = 0
        /// A block on the queue `writing` is going to take the records.
        var isScheduled = false
        var isClosed = false
    }

    /// A file, and how far it has been written and replayed.
    private struct FileProgress {
        let file: JournalFile
        /// The end of the records that are on disk.
        var end: Int
        /// The offset of the first record that waits to be replayed.
        var next = 0
        /// The number of records from `next` to `end`.
        var records: Int
        /// The time of the first record from `next` to `end`.
        var oldest: Date?
        /// No more records are appended.
        var isSealed: Bool
        /// The offsets at which bytes begin that are no record, as far as they are known.
        var gaps: Set<Int> = []
        /// Acknowledged records cannot be read, so the file is not deleted but moved to `rejected/`.
        var isDamaged = false

        var isFinished: Bool { isSealed && next >= end }
    }

    private struct State {
        /// Sorted by age, oldest first.
        var files: [FileProgress] = []
        /// Whether records can be appended, or `nil` before the first attempt to create a file.
        var isOpen: Bool?
        var rejected = 0
        var failures = 0

        func index(_ name: String) -> Int? { files.firstIndex { $0.file.name == name } }

        mutating func insert(_ progress: FileProgress) {
            files.insert(progress, at: files.firstIndex { $0.file.name > progress.file.name } ?? files.endIndex)
        }
    }

    /// A journal's state, for metrics and readiness.
    package struct Status: Sendable, Equatable {
        /// Whether records can be appended.
        package var isOpen: Bool
        /// The number of records that wait to be replayed.
        package var records: Int
        /// The time of the oldest waiting record.
        package var oldest: Date?
        /// The number of files in `rejected/`: rejected records, and damaged files.
        package var rejected: Int
        /// The number of failures since the journal was opened: failed writes, gaps of damaged files, and files that were
        /// deleted or could not be created or adopted.
        package var failures: Int
    }

    /// Records of one file that are confirmed together.
    package struct Batch: Sendable {
        package let records: [JournalRecord]
        fileprivate let file: String
        fileprivate let start: Int
        fileprivate let end: Int
    }

    private let directory: JournalDirectory
    private let maximumBytes: Int
    private let fileSize: Int
    private let operations: FileOperations
    private let logger: Logger
    private let onAppend = Locked<(@Sendable () -> Void)?>(nil)
    private let writing = DispatchQueue(label: "journal-writing")
    private let reading = DispatchQueue(label: "journal-reading")
    private let inbox = Locked(Inbox())
    private let state = Locked(State())
    /// The file to which records are appended, or `nil` after a failure.
    private var active: JournalFile?
    /// Whether the last file is smaller than usual because the disk is nearly full. Accessed on the queue `writing` only.
    private var isShortOfSpace = false
    /// The names of files that cannot be adopted or read, each reported once. Accessed on the queue `reading` only.
    private var failing: Set<String> = []
    /// The names of files of later versions. Accessed on the queue `reading` only.
    private var ofAnotherVersion: Set<String> = []

    /// The usual size of a file. Each file is open until its records are replayed.
    package static let defaultFileSize = 64 << 20

    /// Opens a journal. Blocks the caller.
    ///
    /// - Parameters:
    ///   - path: The directory, which is created if it is missing. Servers may share it.
    ///   - maximumBytes: The size limit of all files in the directory, including those of other servers.
    ///   - fileSize: The size that is reserved for a new file, so that its disk space is available when it is needed.
    /// - Throws: `SystemError` when the directory cannot be used. If only the first file cannot be created, for example
    ///   because the disk is full, no error is thrown and the journal opens later.
    package init(
        path: String,
        maximumBytes: Int,
        fileSize: Int = defaultFileSize,
        operations: FileOperations = .system,
        logger: Logger
    ) throws(SystemError) {
        directory = try JournalDirectory(path)
        self.maximumBytes = maximumBytes
        self.fileSize = fileSize
        self.operations = operations
        self.logger = logger
        if !directory.restrict() {
            logger.warning("Journal directory can be listed by other users", metadata: ["directory": "\(path)"])
        }
        let rejected = directory.rejectedCount()
        state.withLock { $0.rejected = rejected }
        reading.sync { adoptFiles() }
        writing.sync { _ = openFile() }
    }

    /// Sets a handler that is called whenever records have been appended. It runs on a queue of the journal and must
    /// not block.
    package func whenAppended(_ body: @escaping @Sendable () -> Void) {
        onAppend.withLock { $0 = body }
    }

    /// The directory.
    package var path: String { directory.path }

    package var status: Status {
        state.withLock { state in
            Status(
                isOpen: state.isOpen == true,
                records: state.files.reduce(0) { $0 + $1.records },
                oldest: state.files.compactMap(\.oldest).min(),
                rejected: state.rejected,
                failures: state.failures
            )
        }
    }

    // MARK: Appending

    /// Appends a record. `completion` is called once, when the record is on disk or could not be written, on a queue of
    /// the journal or before this function returns. It is not called while the disk hangs. A record that could not be
    /// written may still be replayed.
    package func append(
        _ record: JournalRecord,
        _ completion: @escaping @Sendable (Result<Void, JournalError>) -> Void
    ) {
        guard record.payload.count <= EncodedRecord.maximumPayload else { return completion(.failure(.tooLarge)) }
        let entry = Entry(record: record, completion: completion)
        let refusal: JournalError? = inbox.withLock { inbox in
            guard !inbox.isClosed else { return .closed }
            guard inbox.bytes + entry.length <= Self.maximumWaiting else { return .overloaded }
            inbox.entries.append(entry)
            inbox.bytes += entry.length
            if !inbox.isScheduled {
                inbox.isScheduled = true
                writing.async { self.writeWaiting() }
            }
            return nil
        }
        if let refusal { completion(.failure(refusal)) }
    }

    /// Creates a file for new records if there is none, after a failure or when the file has been deleted.
    package func reopen() {
        guard !inbox.withLock({ $0.isClosed }) else { return }
        writing.async { if self.activeFile() == nil { self.openFile() } }
    }

    /// The file to which records are appended, or `nil` if there is none or it has been deleted.
    private func activeFile() -> JournalFile? {
        guard let active else { return nil }
        if active.isLinked { return active }
        logger.error("Journal file deleted", metadata: ["file": "\(directory.path)/\(active.name)"])
        state.withLock { $0.failures += 1 }
        // The records of the deleted file can still be replayed.
        seal(active)
        return nil
    }

    /// Writes the waiting records in groups until none is left.
    private func writeWaiting() {
        while true {
            let group = inbox.withLock { inbox in
                var length = 0
                let count = inbox.entries.prefix { entry in
                    length += entry.length
                    return length <= Self.maximumGroup || length == entry.length
                }.count
                let group = Array(inbox.entries.prefix(count))
                inbox.entries.removeFirst(count)
                if group.isEmpty { inbox.isScheduled = false }
                return group
            }
            guard !group.isEmpty else { return }
            var rest = group[...]
            while !rest.isEmpty { rest = write(rest) }
            inbox.withLock { $0.bytes -= group.reduce(0) { $0 + $1.length } }
        }
    }

    /// Writes as many records as the file has room for and completes them. Returns the remaining records.
    private func write(_ entries: ArraySlice<Entry>) -> ArraySlice<Entry> {
        if activeFile() == nil, let error = openFile() {
            for entry in entries { entry.completion(.failure(error)) }
            return []
        }
        guard let file = active, let start = end(of: file) else {
            // The journal has been closed.
            active = nil
            return entries
        }
        var bytes: [UInt8] = []
        var count = 0
        for entry in entries {
            guard start + bytes.count + entry.length <= file.size else { break }
            EncodedRecord.append(entry.record, durable: start, to: &bytes)
            count += 1
        }
        guard count > 0 else {
            guard start > 0 else {
                entries[entries.startIndex].completion(.failure(.tooLarge))
                return entries.dropFirst()
            }
            seal(file)
            return entries
        }
        let written = entries.prefix(count)
        do {
            try operations.write(file.descriptor.rawValue, bytes, start)
            try operations.sync(file.descriptor.rawValue)
        } catch {
            // Pages of a failed write may never reach the disk, so nothing may follow them in this file.
            recordFailure("Journal write failed", error, file.name)
            seal(file)
            openFile()
            for entry in written { entry.completion(.failure(.system(error))) }
            return entries.dropFirst(count)
        }
        state.withLock { state in
            guard let index = state.index(file.name) else { return }
            state.files[index].end = start + bytes.count
            state.files[index].records += count
            state.files[index].oldest = state.files[index].oldest ?? written.first?.record.time
        }
        for entry in written { entry.completion(.success(())) }
        onAppend.withLock { $0 }?()
        return entries.dropFirst(count)
    }

    private func end(of file: JournalFile) -> Int? {
        state.withLock { state in
            state.files.first { $0.file.name == file.name }.map(\.end)
        }
    }

    @discardableResult
    private func openFile() -> JournalError? {
        let room = maximumBytes - directory.totalSize()
        guard room >= Self.smallestFile else {
            setOpen(false, .full)
            return .full
        }
        let usual = min(fileSize, room)
        var size = usual
        while true {
            do {
                let file = try directory.createFile(
                    size: size / EncodedRecord.alignment * EncodedRecord.alignment,
                    operations
                )
                active = file
                state.withLock { $0.files.append(FileProgress(file: file, end: 0, records: 0, isSealed: false)) }
                setOpen(true, nil)
                setShortOfSpace(size < usual, size)
                return nil
            } catch {
                if error.code == ENOSPC && size >= 2 * Self.smallestFile {
                    // The disk may still have room for a smaller file.
                    size /= 2
                    continue
                }
                state.withLock { $0.failures += 1 }
                setOpen(false, .system(error))
                return .system(error)
            }
        }
    }

    /// Sets whether records can be appended. Logs the change only, not each attempt.
    private func setOpen(_ isOpen: Bool, _ error: JournalError?) {
        let wasOpen = state.withLock { state in
            defer { state.isOpen = isOpen }
            return state.isOpen
        }
        guard isOpen != wasOpen else { return }
        if let error {
            logger.error("Journal closed", metadata: ["directory": "\(directory.path)", "error": "\(error)"])
        } else {
            logger.notice("Journal opened", metadata: ["directory": "\(directory.path)"])
        }
    }

    /// Sets whether the disk has no room for a file of the usual size. Logs the change to that only, not each small file.
    private func setShortOfSpace(_ isShort: Bool, _ size: Int) {
        defer { isShortOfSpace = isShort }
        guard isShort, !isShortOfSpace else { return }
        logger.warning(
            "Journal file smaller than usual: the disk is nearly full",
            metadata: ["directory": "\(directory.path)", "bytes": "\(size)", "usual": "\(fileSize)"]
        )
    }

    /// Ends appending to the active file and creates another.
    private func replace(_ file: JournalFile) {
        seal(file)
        openFile()
    }

    /// Ends appending to the active file and frees its unused space.
    private func seal(_ file: JournalFile) {
        active = nil
        if let end = end(of: file) { file.truncate(end) }
        state.withLock { state in
            guard let index = state.index(file.name) else { return }
            state.files[index].isSealed = true
        }
        removeIfFinished(file.name)
    }

    // MARK: Replaying

    /// Returns the oldest waiting records, or `nil` if there are none. Returns the same records until they are
    /// confirmed. Only one task may replay at a time.
    ///
    /// - Parameter limit: The maximum number of records.
    package func nextBatch(limit: Int) async -> Batch? {
        await withCheckedContinuation { continuation in
            reading.async { continuation.resume(returning: self.readBatch(limit)) }
        }
    }

    /// Confirms a batch whose records have been stored or rejected. This process does not replay them again.
    ///
    /// - Parameter rejected: The indices of records that can never be stored. These are kept in `rejected/`.
    /// - Throws: `SystemError` when a rejected record cannot be kept. The batch is then not confirmed.
    package func confirm(_ batch: Batch, rejected: [Int] = []) async throws {
        try await withCheckedThrowingContinuation { (continuation: CheckedContinuation<Void, any Error>) in
            reading.async { continuation.resume(with: Result { try self.applyConfirmation(of: batch, rejected) }) }
        }
    }

    /// Adopts the files of servers that have died.
    package func adopt() async {
        await withCheckedContinuation { continuation in
            reading.async {
                self.adoptFiles()
                continuation.resume()
            }
        }
    }

    private func readBatch(_ limit: Int) -> Batch? {
        guard let progress = state.withLock({ state in state.files.first { $0.next < $0.end } }) else { return nil }
        var reader = RecordReader(progress.file, operations)
        var records: [JournalRecord] = []
        var damage: [Range<Int>] = []
        var (offset, bytes) = (progress.next, 0)
        do {
            while records.count < limit, offset < progress.end, bytes < Self.maximumBatch {
                if let (record, next) = try reader.record(at: offset) {
                    records.append(record)
                    bytes += next - offset
                    offset = next
                } else {
                    let next = try reader.nextRecord(after: offset, before: progress.end) ?? progress.end
                    if !progress.gaps.contains(offset) { damage.append(offset..<next) }
                    offset = next
                }
            }
        } catch {
            // The file is read again with the next batch.
            let name = progress.file.name
            if failing.insert(name).inserted { recordFailure("Journal read failed", error, name) }
        }
        if !damage.isEmpty {
            recordDamage(progress.file.name, damage)
            // Nothing more is entrusted to the file.
            writing.async { if let file = self.active, file.name == progress.file.name { self.replace(file) } }
        }
        // A batch without records confirms that a gap reaches to the end.
        guard offset > progress.next else { return nil }
        return Batch(records: records, file: progress.file.name, start: progress.next, end: offset)
    }

    private func applyConfirmation(of batch: Batch, _ rejected: [Int]) throws(SystemError) {
        for index in rejected where batch.records.indices.contains(index) {
            let name = "\(batch.file)-\(batch.start)-\(index)\(JournalDirectory.rejectedSuffix)"
            try directory.storeRejected(batch.records[index].payload, name: name, operations)
        }
        if !rejected.isEmpty {
            let count = directory.rejectedCount()
            state.withLock { $0.rejected = count }
        }
        let oldest = oldest(after: batch)
        let isDrained = state.withLock { state in
            guard let index = state.index(batch.file), state.files[index].next == batch.start else { return false }
            state.files[index].next = batch.end
            state.files[index].records -= batch.records.count
            let isDrained = state.files[index].next >= state.files[index].end
            // Those in gaps were counted when they were appended.
            if isDrained { state.files[index].records = 0 }
            // Records appended meanwhile are not older than those that were read.
            state.files[index].oldest = isDrained ? nil : oldest ?? state.files[index].oldest
            return isDrained
        }
        guard isDrained else { return }
        removeIfFinished(batch.file)
        // Replaces the active file once it is drained, so that a crash leaves no file with records that have been
        // stored.
        writing.async {
            guard let file = self.active, file.name == batch.file else { return }
            let isDrained = self.state.withLock { state in
                state.index(file.name).map { state.files[$0].next >= state.files[$0].end } ?? false
            }
            if isDrained { self.replace(file) }
        }
    }

    private func oldest(after batch: Batch) -> Date? {
        guard let progress = state.withLock({ state in state.index(batch.file).map { state.files[$0] } }),
            batch.end < progress.end
        else { return nil }
        var reader = RecordReader(progress.file, operations)
        return (try? reader.record(at: batch.end))?.record.time
    }

    private func adoptFiles() {
        let files = state.withLock { $0.files }
        // Tries again to move damaged files that could not be moved.
        for progress in files where progress.isFinished { removeIfFinished(progress.file.name) }
        let known = Set(files.map(\.file.name)).union(ofAnotherVersion)
        for name in directory.fileNames() where !known.contains(name) {
            do {
                guard let file = try directory.adoptFile(name) else { continue }
                try adopt(file)
                failing.remove(name)
            } catch {
                if failing.insert(name).inserted { recordFailure("Journal file adoption failed", error, name) }
            }
        }
        // An operator may have deleted some.
        let rejected = directory.rejectedCount()
        state.withLock { $0.rejected = rejected }
    }

    private func adopt(_ file: JournalFile) throws(SystemError) {
        var reader = RecordReader(file, operations)
        let contents = try reader.contents()
        guard !contents.isOfAnotherVersion else {
            ofAnotherVersion.insert(file.name)
            state.withLock { $0.failures += 1 }
            logger.error(
                "Journal file of a later version: start that version, which replays it",
                metadata: ["file": "\(directory.path)/\(file.name)"]
            )
            return
        }
        var progress = FileProgress(file: file, end: contents.end, records: contents.records, isSealed: true)
        progress.oldest = contents.oldest
        progress.gaps = Set(contents.gaps.map(\.range.lowerBound))
        if contents.records > 0 || !contents.gaps.isEmpty {
            logger.notice(
                "Journal file adopted",
                metadata: ["file": "\(file.name)", "records": "\(contents.records)"]
            )
        }
        state.withLock { $0.insert(progress) }
        let damage = contents.gaps.filter(\.isDamage).map(\.range)
        if !damage.isEmpty { recordDamage(file.name, damage) }
        for gap in contents.gaps where !gap.isDamage {
            logger.warning(
                "Journal file has an incomplete write, which was not acknowledged",
                metadata: ["file": "\(directory.path)/\(file.name)", "bytes": "\(Self.text([gap.range]))"]
            )
        }
        file.truncate(max(contents.end, damage.last?.upperBound ?? 0))
        removeIfFinished(file.name)
    }

    /// Counts and reports bytes of a file in which acknowledged records can no longer be read.
    private func recordDamage(_ name: String, _ gaps: [Range<Int>]) {
        state.withLock { state in
            state.failures += gaps.count
            guard let index = state.index(name) else { return }
            state.files[index].isDamaged = true
            state.files[index].gaps.formUnion(gaps.map(\.lowerBound))
        }
        logger.error(
            "Journal file damaged: the calls in the gaps are lost, all others are replayed",
            metadata: [
                "file": "\(directory.path)/\(name)", "gaps": "\(gaps.count)", "bytes": "\(Self.text(gaps))",
            ]
        )
    }

    /// Returns the ranges of the first ten gaps: `24-56, 400-432`.
    private static func text(_ gaps: [Range<Int>]) -> String {
        let shown = gaps.prefix(10).map { "\($0.lowerBound)-\($0.upperBound)" }
        return (shown + (gaps.count > shown.count ? ["..."] : [])).joined(separator: ", ")
    }

    private func recordFailure(_ message: Logger.Message, _ error: SystemError, _ name: String) {
        state.withLock { $0.failures += 1 }
        logger.error(message, metadata: ["file": "\(directory.path)/\(name)", "error": "\(error)"])
    }

    /// Deletes a file that is sealed and completely replayed. Moves a damaged one to `rejected/`; if that fails, it is
    /// tried again with the next adoption.
    private func removeIfFinished(_ name: String) {
        let finished = state.withLock { state -> FileProgress? in
            guard let index = state.index(name), state.files[index].isFinished else { return nil }
            return state.files.remove(at: index)
        }
        guard let finished else { return }
        guard finished.isDamaged else { return directory.remove(name) }
        do {
            try directory.reject(name)
            let rejected = directory.rejectedCount()
            state.withLock { $0.rejected = rejected }
        } catch {
            recordFailure("Damaged journal file not moved to rejected/", error, name)
            state.withLock { $0.insert(finished) }
        }
    }

    // MARK: Closing

    /// Writes the waiting records, deletes files without records, and releases the others. Waits for the disk for up to
    /// `limit`.
    package func close(within limit: Duration = .seconds(2)) async {
        inbox.withLock { $0.isClosed = true }
        let isClosed = Locked(false)
        await withCheckedContinuation { (continuation: CheckedContinuation<Void, Never>) in
            let resume: @Sendable () -> Void = {
                let isFirst = isClosed.withLock { isClosed in
                    defer { isClosed = true }
                    return !isClosed
                }
                if isFirst { continuation.resume() }
            }
            writing.async {
                if let active = self.active { self.seal(active) }
                self.reading.async {
                    self.state.withLock { state in
                        state.files = []
                        state.isOpen = false
                    }
                    resume()
                }
            }
            let milliseconds = Int(clamping: limit.wholeMilliseconds)
            DispatchQueue.global().asyncAfter(deadline: .now() + .milliseconds(milliseconds), execute: resume)
        }
    }
}
