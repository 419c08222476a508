import EventLoop
import FoundationEssentials
import Glibc
import Journal
import Locking
import Logging
import TestSupport
import Testing

/// A folder that one test uses alone.
struct TestFolder {
    let path: String

    init() throws {
        path = try TemporaryFolder.make() + "/journal"
    }

    /// The files with records.
    var files: [String] {
        let names = (try? FileManager.default.contentsOfDirectory(atPath: path)) ?? []
        return names.filter { $0.hasSuffix(".journal") }.sorted().map { "\(path)/\($0)" }
    }

    var rejected: [String] {
        ((try? FileManager.default.contentsOfDirectory(atPath: "\(path)/rejected")) ?? []).sorted()
    }

    func journal(
        maximumBytes: Int = 1 << 20,
        _ operations: FileOperations = .system,
        log: CollectedLog = CollectedLog()
    ) throws -> Journal {
        try Journal(
            path: path,
            maximumBytes: maximumBytes,
            fileSize: 64 * 1024,
            operations: operations,
            logger: log.logger
        )
    }

    /// Waits until journals that the test has released have closed their files: a block on one of their queues may
    /// still retain them.
    func waitUntilUnlocked() async throws {
        let path = path
        try await eventually("no file is locked") {
            let names = (try? FileManager.default.contentsOfDirectory(atPath: path)) ?? []
            return names.filter { $0.hasSuffix(".journal") }.allSatisfy { name in
                let descriptor = FileDescriptor(owning: open("\(path)/\(name)", O_RDWR))
                return flock(descriptor.rawValue, LOCK_EX | LOCK_NB) == 0
            }
        }
    }

    /// Opens a journal as the next server does, and lets it adopt files until it has those that the test expects.
    ///
    /// A process that another test starts at that moment holds the locks of all files until it executes its program.
    func reopened(
        log: CollectedLog = CollectedLog(),
        until hasAdopted: (Journal.Status) -> Bool
    ) async throws -> Journal {
        let journal = try journal(log: log)
        try await eventually("the files are adopted") {
            await journal.adopt()
            return hasAdopted(journal.status)
        }
        return journal
    }

    /// Overwrites bytes of a file.
    func overwrite(_ file: String, at offset: Int, _ bytes: [UInt8]) throws {
        let descriptor = FileDescriptor(owning: open(file, O_WRONLY))
        guard pwrite(descriptor.rawValue, bytes, bytes.count, offset) == bytes.count else {
            throw SystemError(call: "pwrite")
        }
    }
}

extension Journal {
    /// Appends a record and waits until it is on disk.
    func append(_ text: String, time: Double = 1) async throws {
        try await withCheckedThrowingContinuation { (continuation: CheckedContinuation<Void, any Error>) in
            append(JournalRecord(time: Date(timeIntervalSince1970: time), payload: Array(text.utf8))) { result in
                continuation.resume(with: result.mapError { $0 as any Error })
            }
        }
    }

    /// Returns all waiting records, and confirms each batch as it is read.
    func drain(limit: Int = 10) async throws -> [String] {
        var texts: [String] = []
        while let batch = await nextBatch(limit: limit) {
            texts += batch.records.map { String(decoding: $0.payload, as: UTF8.self) }
            try await confirm(batch)
        }
        return texts
    }
}
