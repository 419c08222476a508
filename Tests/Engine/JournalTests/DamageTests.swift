import Dispatch
import EventLoop
import FoundationEssentials
import Glibc
import Journal
import Locking
import Logging
import TestSupport
import Testing

/// Files whose bytes are not as they were written: each intact record is replayed, and no loss is silent.
@Suite(.timeLimit(.minutes(2))) struct DamageTests {
    /// Returns the bytes that a record with a payload of `payload` bytes takes: header, payload and padding to a
    /// multiple of 8.
    private static func length(_ payload: Int) -> Int { (24 + payload + 7) / 8 * 8 }

    private static let sector = 512

    /// Writes records with a journal, each synced before the next, and returns the file.
    private static func file(_ folder: TestFolder, _ payloads: [String]) async throws -> String {
        do {
            let journal = try folder.journal()
            for payload in payloads { try await journal.append(payload) }
        }
        try await folder.waitUntilUnlocked()
        return try #require(folder.files.first)
    }

    private static func rejected(_ folder: TestFolder, _ file: String) -> String {
        "\(folder.path)/rejected/\(file.split(separator: "/").last ?? "")"
    }

    @Test(
        "A damaged byte costs one record: the others are replayed, the loss is logged and counted, and the file ends",
        arguments: [0, 1, 2, 3],
        [0, 3, 4, 12, 16, 26, 31]
    )
    func flippedByte(record: Int, offset: Int) async throws {
        let folder = try TestFolder()
        let log = CollectedLog()
        let file = try await Self.file(folder, (0..<4).map { "record \($0)" })
        let start = record * Self.length(8)
        try folder.overwrite(file, at: start + offset, [0xEE])
        let bytes = FileManager.default.contents(atPath: file)?.prefix(4 * Self.length(8))
        let journal = try await folder.reopened(log: log) { $0.failures == 1 }
        #expect(journal.status.records == 3)
        #expect(try await journal.drain() == (0..<4).filter { $0 != record }.map { "record \($0)" })
        #expect(!folder.files.contains(file))
        let line = try #require(log.lines.first { $0.level == .error })
        #expect(line.message.contains("damaged"))
        #expect(line.metadata["file"] == file)
        #expect(line.metadata["bytes"] == "\(start)-\(start + Self.length(8))")
        #expect(FileManager.default.contents(atPath: Self.rejected(folder, file)) == bytes)
        #expect(journal.status.rejected == 1)
        #expect(journal.status.records == 0)
        #expect(journal.status.oldest == nil)
        // The next server has nothing more to do with the file.
        try await journal.append("new")
        #expect(try await journal.drain() == ["new"])
        await journal.close()
        let next = try folder.journal()
        #expect(next.status.failures == 0)
        #expect(next.status.records == 0)
    }

    @Test("Two damaged places among 400 records cost two records")
    func many() async throws {
        let folder = try TestFolder()
        let log = CollectedLog()
        let file = try await Self.file(folder, (0..<400).map { "record \($0 + 100)" })
        let length = Self.length(10)
        for record in [7, 398] { try folder.overwrite(file, at: record * length + 30, [0]) }
        let journal = try await folder.reopened(log: log) { $0.failures == 2 }
        #expect(try await journal.drain() == (0..<400).filter { $0 != 7 && $0 != 398 }.map { "record \($0 + 100)" })
        #expect(
            log.lines.first { $0.level == .error }?.metadata["bytes"]
                == "\(7 * length)-\(8 * length), \(398 * length)-\(399 * length)"
        )
        #expect(!folder.files.contains(file))
    }

    @Test("Zeros in place of acknowledged records are damage, not the end of the file", arguments: [1, 20])
    func zeros(count: Int) async throws {
        let folder = try TestFolder()
        let log = CollectedLog()
        let file = try await Self.file(folder, (0..<40).map { "record \($0 + 10)" })
        let length = Self.length(9)
        try folder.overwrite(file, at: length, [UInt8](repeating: 0, count: count * length))
        let journal = try await folder.reopened(log: log) { $0.failures == 1 }
        #expect(
            try await journal.drain() == (0..<40).filter { $0 < 1 || $0 > count }.map { "record \($0 + 10)" }
        )
        #expect(log.messages(.error).count == 1)
    }

    @Test(
        "Of a last write that a crash cut short, nothing is replayed and nothing was acknowledged, whichever sectors are missing",
        arguments: [[0, 1, 2, 3, 4, 5, 6], [3, 4, 5, 6], [6], [1], [0], [0, 2], [0, 6]]
    )
    func cutShort(missing: [Int]) async throws {
        let folder = try TestFolder()
        let log = CollectedLog()
        let file = try await Self.file(folder, ["record 0", "record 1", String(repeating: "x", count: 3000)])
        let (start, end) = (2 * Self.length(8), 2 * Self.length(8) + Self.length(3000))
        for sector in missing {
            let range = max(start, sector * Self.sector)..<min(end, (sector + 1) * Self.sector)
            try folder.overwrite(file, at: range.lowerBound, [UInt8](repeating: 0, count: range.count))
        }
        let journal = try await folder.reopened(log: log) { $0.records == 2 }
        #expect(try await journal.drain() == ["record 0", "record 1"])
        #expect(!folder.files.contains(file))
        #expect(folder.rejected.isEmpty)
        #expect(log.messages(.error).isEmpty)
        // A write of which nothing reached the disk cannot be noticed.
        #expect(log.messages(.warning).count == (missing.count == 7 ? 0 : 1))
    }

    @Test("Damage in the last write costs one record, and is logged", arguments: [0, 1, 2])
    func lastWrite(record: Int) async throws {
        let folder = try TestFolder()
        let log = CollectedLog()
        let hold = DispatchSemaphore(value: 0)
        let isHeld = Locked(false)
        var operations = FileOperations.system
        operations.sync = { [sync = operations.sync] descriptor throws(SystemError) in
            if isHeld.withLock({ $0 }) { hold.wait() }
            try sync(descriptor)
        }
        do {
            let journal = try folder.journal(operations)
            isHeld.withLock { $0 = true }
            let answered = Locked(0)
            for number in 0..<4 {
                // The first is written alone, and the others, which wait for it, together.
                journal.append(JournalRecord(time: Date(), payload: Array("record \(number)".utf8))) { _ in
                    answered.withLock { $0 += 1 }
                }
                if number == 0 {
                    try await eventually("the first is written") {
                        FileManager.default.contents(atPath: folder.files.first ?? "")?.first == UInt8(ascii: "K")
                    }
                }
            }
            isHeld.withLock { $0 = false }
            hold.signal()
            try await eventually("all are written") { answered.withLock { $0 } == 4 }
        }
        try await folder.waitUntilUnlocked()
        let file = try #require(folder.files.first)
        try folder.overwrite(file, at: (1 + record) * Self.length(8) + 25, [0xEE])
        let journal = try await folder.reopened(log: log) { $0.failures == 1 }
        #expect(try await journal.drain() == (0..<4).filter { $0 != record + 1 }.map { "record \($0)" })
        #expect(log.messages(.error).count == 1)
        #expect(folder.rejected.count == 1)
    }

    @Test("Damage in a file that the server itself writes costs one record, and the next goes to another file")
    func ownFile() async throws {
        let folder = try TestFolder()
        let log = CollectedLog()
        let journal = try folder.journal(log: log)
        let file = try #require(folder.files.first)
        for number in 0..<5 { try await journal.append("record \(number)") }
        try folder.overwrite(file, at: 2 * Self.length(8) + 25, [0xEE])
        try folder.overwrite(file, at: 4 * Self.length(8) + 25, [0xEE])
        #expect(try await journal.drain() == ["record 0", "record 1", "record 3"])
        try await eventually("the file is moved") { journal.status.rejected == 1 && !folder.files.contains(file) }
        #expect(journal.status.failures == 2)
        #expect(journal.status.records == 0)
        #expect(log.messages(.error).count == 1)
        try await journal.append("new")
        #expect(try await journal.drain() == ["new"])
        await journal.close()
        #expect(folder.files.isEmpty)
    }

    @Test("A sector that the disk cannot read costs the records in it")
    func unreadable() async throws {
        let folder = try TestFolder()
        let log = CollectedLog()
        let file = try await Self.file(folder, (0..<4).map { "\($0) \(String(repeating: "x", count: 4000))" })
        var operations = FileOperations.system
        operations.read = { [read = operations.read] descriptor, count, offset throws(SystemError) in
            // A byte of the second record.
            if offset..<(offset + count) ~= 5000 { throw SystemError(call: "pread", code: EIO) }
            return try read(descriptor, count, offset)
        }
        let journal = try folder.journal(operations, log: log)
        try await eventually("the file is adopted") {
            await journal.adopt()
            return journal.status.failures == 1
        }
        // The page of 4 KiB that has the byte begins in the second record and ends in the third.
        #expect(try await journal.drain().map { $0.prefix(1) } == ["0", "3"])
        #expect(!folder.files.contains(file))
        #expect(log.messages(.error).count == 1)
    }

    @Test("A file of a later version is left for that version, and logged once")
    func laterVersion() async throws {
        let folder = try TestFolder()
        let log = CollectedLog()
        let file = try await Self.file(folder, ["record 0"])
        try folder.overwrite(file, at: 3, [2])
        let journal = try await folder.reopened(log: log) { $0.failures == 1 }
        await journal.adopt()
        #expect(log.messages(.error).count == 1)
        #expect(folder.files.contains(file))
        #expect(folder.rejected.isEmpty)
    }

    @Test("A file that cannot be opened is logged once, and replayed as soon as it can be")
    func unopenable() async throws {
        let folder = try TestFolder()
        let log = CollectedLog()
        let file = try await Self.file(folder, ["record 0"])
        // A symbolic link is not followed.
        #expect(rename(file, "\(folder.path)/moved") == 0)
        #expect(symlink("\(folder.path)/moved", file) == 0)
        let journal = try folder.journal(log: log)
        await journal.adopt()
        #expect(log.messages(.error) == ["Journal file adoption failed"])
        #expect(journal.status.failures == 1)
        #expect(rename("\(folder.path)/moved", file) == 0)
        try await eventually("the file is adopted") {
            await journal.adopt()
            return journal.status.records == 1
        }
        #expect(try await journal.drain() == ["record 0"])
    }

    @Test("A damaged file that cannot be moved is kept, and moved later")
    func unmovable() async throws {
        let folder = try TestFolder()
        let file = try await Self.file(folder, ["record 0", "record 1"])
        try folder.overwrite(file, at: 25, [0xEE])
        let journal = try await folder.reopened { $0.failures == 1 }
        #expect(rmdir("\(folder.path)/rejected") == 0)
        try writeFile([], to: "\(folder.path)/rejected")
        #expect(try await journal.drain() == ["record 1"])
        #expect(folder.files.contains(file))
        #expect(unlink("\(folder.path)/rejected") == 0)
        await journal.adopt()
        #expect(!folder.files.contains(file))
        #expect(journal.status.rejected == 1)
    }

    @Test("A command replays the intact records of a damaged file, and a rejected record")
    func command() async throws {
        let folder = try TestFolder()
        let file = try await Self.file(folder, ["record 0", "record 1", "record 2"])
        try folder.overwrite(file, at: Self.length(8) + 25, [0xEE])
        let copy = "\(try TemporaryFolder.make())/copy.journal"
        #expect(rename(file, copy) == 0)
        let contents = try JournalFileContents(path: copy)
        var parts: [String] = []
        try contents.forEach { part in
            switch part {
            case .record(let record, let offset, let length):
                parts.append("\(offset) \(length) \(String(decoding: record.payload, as: UTF8.self))")
            case .gap(let range, let isDamage): parts.append("\(range) \(isDamage)")
            }
        }
        #expect(parts == ["0 32 record 0", "32..<64 true", "64 32 record 2"])
        #expect(try contents.replay(in: folder.path) == 2)
        let journal = try await folder.reopened { $0.records == 2 }
        #expect(try await journal.drain() == ["record 0", "record 2"])
        #expect(!JournalFileContents.removeRejected(copy, in: folder.path))

        try await journal.append("rejected")
        let batch = try #require(await journal.nextBatch(limit: 1))
        try await journal.confirm(batch, rejected: [0])
        let rejected = "\(folder.path)/rejected/\(try #require(folder.rejected.first))"
        #expect(try JournalFileContents(path: rejected).replay(in: folder.path) == 1)
        #expect(JournalFileContents.removeRejected(rejected, in: folder.path))
        #expect(folder.rejected.isEmpty)
        try await eventually("it is adopted") {
            await journal.adopt()
            return journal.status.records == 1
        }
        #expect(journal.status.rejected == 0)
        #expect(try await journal.drain() == ["rejected"])
    }
}
