import EventLoop
import FoundationEssentials
import Glibc
import Journal
import Logging
import TestSupport
import Testing

/// The files of the records of the last minutes.
@Suite(.timeLimit(.minutes(2))) struct RecentRecordsTests {
    private static func open(
        _ path: String,
        retention: Duration = .seconds(600),
        maximumBytes: Int = 1 << 30
    ) throws -> RecentRecords {
        try RecentRecords(path: path, retention: retention, maximumBytes: maximumBytes, logger: CollectedLog().logger)
    }

    private static func texts(_ recent: RecentRecords) async -> [String] {
        var texts: [String] = []
        for name in await recent.fileNames() {
            texts += await recent.records(ofFile: name).map { String(decoding: $0.payload, as: UTF8.self) }
        }
        return texts
    }

    @Test("Records are read again in their order, also by the next process")
    func reading() async throws {
        let path = "\(try TemporaryFolder.make())/recent"
        let recent = try Self.open(path)
        let written = (0..<1000).map { "record \($0)" }
        for text in written { recent.append(JournalRecord(time: Date(), payload: Array(text.utf8))) }
        #expect(await Self.texts(recent) == written)
        // The disk is not waited for, but reading does.
        recent.append(JournalRecord(time: Date(), payload: Array("last".utf8)))
        #expect(await Self.texts(recent) == written + ["last"])
        #expect(try await Self.texts(Self.open(path)) == written + ["last"])
        #expect(await recent.records(ofFile: "unknown.journal").isEmpty)
    }

    @Test("Files are deleted when their records are old, and not before")
    func retention() async throws {
        let path = "\(try TemporaryFolder.make())/recent"
        try #require(await Self.write(["old"], path) == 1)
        let recent = try Self.open(path)
        await recent.removeOld()
        #expect(await Self.texts(recent) == ["old"])
        let name = try #require(await recent.fileNames().first)
        var times = [timespec(tv_sec: time(nil) - 601, tv_nsec: 0), timespec(tv_sec: time(nil) - 601, tv_nsec: 0)]
        #expect(utimensat(AT_FDCWD, "\(path)/\(name)", &times, 0) == 0)
        await recent.removeOld()
        #expect(await Self.texts(recent).isEmpty)
    }

    /// Writes records in a process of its own, so to speak. Returns the number of files.
    private static func write(_ texts: [String], _ path: String) async throws -> Int {
        let recent = try open(path)
        for text in texts { recent.append(JournalRecord(time: Date(), payload: Array(text.utf8))) }
        return await recent.fileNames().count
    }

    @Test("The oldest files make room for new ones")
    func size() async throws {
        let path = "\(try TemporaryFolder.make())/recent"
        // Each file has room for seven of them.
        let recent = try Self.open(path, maximumBytes: 20 << 20)
        for number in 0..<40 {
            recent.append(JournalRecord(time: Date(), payload: [UInt8](repeating: UInt8(number), count: 1 << 20)))
            _ = await recent.fileNames()
        }
        let names = await recent.fileNames()
        #expect(names.count == 2)
        var numbers: [UInt8] = []
        for name in names { numbers += await recent.records(ofFile: name).compactMap(\.payload.first) }
        #expect(numbers.last == 39)
        #expect(numbers.count < 15)
    }
}
