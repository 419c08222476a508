import Dispatch
import EventLoop
import FoundationEssentials
import Glibc
import Journal
import Locking
import Logging
import TestSupport
import Testing

/// Journals on a real disk, and on simulated disks that fail.
@Suite(.timeLimit(.minutes(2))) struct JournalTests {
    @Test("Records come back in order with their times, and the file is deleted after the last is confirmed")
    func replay() async throws {
        let folder = try TestFolder()
        let journal = try folder.journal()
        let file = folder.files
        #expect(file.count == 1)
        for number in 0..<25 { try await journal.append("record \(number)", time: Double(100 + number)) }
        #expect(journal.status.records == 25)
        #expect(journal.status.oldest == Date(timeIntervalSince1970: 100))
        let first = try #require(await journal.nextBatch(limit: 10))
        #expect(first.records.count == 10)
        // The same records are returned until they are confirmed.
        #expect(await journal.nextBatch(limit: 10)?.records.first?.payload == Array("record 0".utf8))
        try await journal.confirm(first)
        #expect(journal.status.records == 15)
        #expect(journal.status.oldest == Date(timeIntervalSince1970: 110))
        #expect(try await journal.drain() == (10..<25).map { "record \($0)" })
        #expect(journal.status.records == 0)
        #expect(journal.status.oldest == nil)
        try await eventually("the file is replaced") { folder.files.count == 1 && folder.files != file }
        try await journal.append("another")
        #expect(try await journal.drain() == ["another"])
        await journal.close()
        #expect(folder.files.isEmpty)
    }

    @Test(
        "The next server replays the records of a server that has died"
    )
    func restart() async throws {
        let folder = try TestFolder()
        do {
            let journal = try folder.journal()
            for number in 0..<3 { try await journal.append("record \(number)") }
        }
        try await folder.waitUntilUnlocked()
        let file = try #require(folder.files.first)
        let journal = try await folder.reopened { $0.records == 3 }
        #expect(try await journal.drain() == ["record 0", "record 1", "record 2"])
        #expect(!folder.files.contains(file))
    }

    @Test("Two servers share a directory, and neither adopts the other's files before it has ended")
    func shared() async throws {
        let folder = try TestFolder()
        let first = try folder.journal()
        try await first.append("first")
        let second = try folder.journal()
        try await second.append("second")
        await second.adopt()
        #expect(try await second.drain() == ["second"])
        #expect(try await first.drain() == ["first"])
        try await first.append("left")
        await first.close()
        // The lock may be held for a moment, as in `reopened(log:until:)`.
        try await eventually("the file is adopted") {
            await second.adopt()
            return second.status.records == 1
        }
        #expect(try await second.drain() == ["left"])
        await second.close()
        #expect(folder.files.isEmpty)
    }

    @Test("Only the owner can read the files")
    func permissions() async throws {
        let folder = try TestFolder()
        let journal = try folder.journal()
        func mode(_ path: String) -> UInt32 {
            var status = stat()
            return stat(path, &status) == 0 ? status.st_mode & 0o777 : 0
        }
        #expect(mode(folder.path) == 0o700)
        #expect(mode("\(folder.path)/rejected") == 0o700)
        #expect(mode(try #require(folder.files.first)) == 0o600)
        await journal.close()
        // A directory that was created by hand with wider permissions.
        chmod(folder.path, 0o755)
        await (try folder.journal()).close()
        #expect(mode(folder.path) == 0o700)
    }

    @Test("A rejected record is kept in rejected/ and counted, even after a restart")
    func rejected() async throws {
        let folder = try TestFolder()
        do {
            let journal = try folder.journal()
            for number in 0..<3 { try await journal.append("record \(number)") }
            let batch = try #require(await journal.nextBatch(limit: 10))
            try await journal.confirm(batch, rejected: [1])
            #expect(journal.status.rejected == 1)
            #expect(journal.status.records == 0)
        }
        try await folder.waitUntilUnlocked()
        let name = try #require(folder.rejected.first)
        let contents = FileManager.default.contents(atPath: "\(folder.path)/rejected/\(name)")
        #expect(contents.map { String(decoding: $0, as: UTF8.self) } == "record 1")
        #expect(try folder.journal().status.rejected == 1)
    }

    @Test("Records that arrive during a sync share the next one, and a hanging disk blocks no caller")
    func groups() async throws {
        let folder = try TestFolder()
        let hold = DispatchSemaphore(value: 0)
        let isHeld = Locked(false)
        let syncs = Locked(0)
        var operations = FileOperations.system
        operations.sync = { [sync = operations.sync] descriptor throws(SystemError) in
            if isHeld.withLock({ $0 }) {
                syncs.withLock { $0 += 1 }
                hold.wait()
            }
            try sync(descriptor)
        }
        let journal = try folder.journal(operations)
        isHeld.withLock { $0 = true }
        let answered = Locked(0)
        for number in 0..<100 {
            journal.append(JournalRecord(time: Date(), payload: Array("record \(number)".utf8))) { result in
                if case .success = result { answered.withLock { $0 += 1 } }
            }
            if number == 0 { try await eventually("the disk hangs") { syncs.withLock { $0 } == 1 } }
        }
        #expect(answered.withLock { $0 } == 0)
        #expect(journal.status.records == 0)
        hold.signal()
        try await eventually("the first append completes") { answered.withLock { $0 } == 1 }
        hold.signal()
        try await eventually("all appends complete") { answered.withLock { $0 } == 100 }
        #expect(syncs.withLock { $0 } == 2)
        isHeld.withLock { $0 = false }
        #expect(try await journal.drain(limit: 100).count == 100)
    }

    @Test(
        "After a failed write or sync the callers receive the error, and a new file is started",
        arguments: [false, true]
    )
    func failing(sync: Bool) async throws {
        let folder = try TestFolder()
        let log = CollectedLog()
        let isFailing = Locked(false)
        var operations = FileOperations.system
        let fail: @Sendable () throws(SystemError) -> Void = { () throws(SystemError) in
            let fails = isFailing.withLock { isFailing in
                defer { isFailing = false }
                return isFailing
            }
            if fails { throw SystemError(call: "test", code: EIO) }
        }
        if sync {
            operations.sync = { [sync = operations.sync] descriptor throws(SystemError) in
                try fail()
                try sync(descriptor)
            }
        } else {
            operations.write = { [write = operations.write] descriptor, bytes, offset throws(SystemError) in
                try fail()
                try write(descriptor, bytes, offset)
            }
        }
        let journal = try folder.journal(operations, log: log)
        try await journal.append("before")
        isFailing.withLock { $0 = true }
        await #expect(throws: JournalError.self) { try await journal.append("failed") }
        #expect(journal.status.failures == 1)
        #expect(journal.status.isOpen)
        #expect(log.messages(.error) == ["Journal write failed"])
        try await journal.append("after")
        #expect(folder.files.count == 2)
        #expect(try await journal.drain() == ["before", "after"])
    }

    @Test("A journal whose directory was deleted logs that, creates it again, and still replays the earlier records")
    func deletedDirectory() async throws {
        let folder = try TestFolder()
        let log = CollectedLog()
        let journal = try folder.journal(log: log)
        try await journal.append("before")
        #expect(unlink(try #require(folder.files.first)) == 0)
        rmdir("\(folder.path)/rejected")
        #expect(rmdir(folder.path) == 0)
        try await journal.append("after")
        #expect(folder.files.count == 1)
        #expect(log.messages(.error) == ["Journal file deleted"])
        let used = folder.files
        #expect(try await journal.drain() == ["before", "after"])

        var fresh: [String] = []
        try await eventually("the file is replaced") {
            fresh = folder.files
            return fresh.count == 1 && fresh != used
        }
        #expect(unlink(fresh[0]) == 0)
        journal.reopen()
        try await eventually("a file is created before it is needed") { folder.files.count == 1 }
    }

    @Test("A full disk closes the journal until there is room, and is logged once")
    func noSpace() async throws {
        let folder = try TestFolder()
        let log = CollectedLog()
        let isFull = Locked(true)
        var operations = FileOperations.system
        operations.allocate = { [allocate = operations.allocate] descriptor, length throws(SystemError) in
            if isFull.withLock({ $0 }) { throw SystemError(call: "posix_fallocate", code: ENOSPC) }
            try allocate(descriptor, length)
        }
        let journal = try folder.journal(operations, log: log)
        #expect(!journal.status.isOpen)
        for _ in 0..<3 { await #expect(throws: JournalError.self) { try await journal.append("lost") } }
        #expect(log.messages(.error).count == 1)
        #expect(folder.files.isEmpty)
        isFull.withLock { $0 = false }
        journal.reopen()
        try await eventually("the journal is open again") { journal.status.isOpen }
        try await journal.append("kept")
        #expect(try await journal.drain() == ["kept"])
    }

    @Test("On a nearly full disk the journal uses smaller files, and logs that once")
    func littleSpace() async throws {
        let folder = try TestFolder()
        let log = CollectedLog()
        var operations = FileOperations.system
        operations.allocate = { [allocate = operations.allocate] descriptor, length throws(SystemError) in
            if length > 10_000 { throw SystemError(call: "posix_fallocate", code: ENOSPC) }
            try allocate(descriptor, length)
        }
        let journal = try folder.journal(operations, log: log)
        #expect(journal.status.isOpen)
        #expect(journal.status.failures == 0)
        for number in 0..<20 { try await journal.append("\(number) \(String(repeating: "x", count: 3000))") }
        #expect(try await journal.drain().count == 20)
        #expect(log.messages(.warning).filter { $0.hasPrefix("Journal file smaller than usual") }.count == 1)
    }

    @Test("At its size limit the journal rejects records, and accepts them again when others are confirmed")
    func limit() async throws {
        let folder = try TestFolder()
        let journal = try folder.journal(maximumBytes: 16 * 1024)
        let text = String(repeating: "x", count: 4000)
        for _ in 0..<4 { try await journal.append(text) }
        await #expect(throws: JournalError.self) { try await journal.append(text) }
        #expect(!journal.status.isOpen)
        #expect(try await journal.drain().count == 4)
        try await journal.append(text)
        #expect(try await journal.drain().count == 1)
        for bytes in [16 * 1024, 5 << 20] {
            await #expect(throws: JournalError.self) { try await journal.append(String(repeating: "x", count: bytes)) }
        }
    }

    @Test("A full file is followed by another, and all records are replayed in order")
    func rotation() async throws {
        let folder = try TestFolder()
        do {
            let journal = try folder.journal()
            for number in 0..<100 { try await journal.append("\(number) \(String(repeating: "x", count: 3000))") }
            #expect(folder.files.count == 5)
        }
        try await folder.waitUntilUnlocked()
        let journal = try await folder.reopened { $0.records == 100 }
        // Adopting a file frees its unused space and keeps its records.
        #expect(try await journal.drain().map { $0.prefix { $0 != " " } } == (0..<100).map { "\($0)" })
        await journal.close()
        #expect(folder.files.isEmpty)
    }

    @Test("Servers that die repeatedly use no more space than their records need")
    func crashes() async throws {
        let folder = try TestFolder()
        for number in 0..<40 {
            try await folder.journal().append("record \(number)")
            try await folder.waitUntilUnlocked()
        }
        let journal = try await folder.reopened { $0.records == 40 }
        #expect(try await journal.drain(limit: 3) == (0..<40).map { "record \($0)" })
    }

    @Test("A closed journal rejects records")
    func closed() async throws {
        let folder = try TestFolder()
        let journal = try folder.journal()
        await journal.close()
        await #expect(throws: JournalError.self) { try await journal.append("late") }
        #expect(folder.files.isEmpty)
    }
}
