import EventLoop
import FoundationEssentials
import Journal
import Server
import ServiceTesting
import TestSupport
import Testing

/// Tests of `push-server journal` as a process, on files of a journal.
@Suite(.timeLimit(.minutes(5))) struct JournalCommandTests {
    @Test("show lists the calls and gaps of a file, and replay appends the intact calls to the journal of a server")
    func showAndReplay() async throws {
        let folder = "\(try TemporaryFolder.make())/journal"
        let journal = try Journal(path: folder, maximumBytes: 1 << 20, logger: quietLogger)
        for number in 1...3 {
            let payload = """
                {"link_callback":{"id":"0198\(number)000-0000-7000-8000-000000000000","resource_id":"call-\(number)",\
                "chat_type":"MemoChat","hash_chat_id":"b","template_id":null,"args":"{}","received_at":1000000}}
                """
            await withCheckedContinuation { continuation in
                journal.append(JournalRecord(time: Date(timeIntervalSince1970: 1), payload: Array(payload.utf8))) { _ in
                    continuation.resume()
                }
            }
        }
        let name = try #require(
            FileManager.default.contentsOfDirectory(atPath: folder).first { $0.hasSuffix(".journal") }
        )
        // The first byte of the second record.
        var bytes = [UInt8](try #require(FileManager.default.contents(atPath: "\(folder)/\(name)")))
        let second = try #require(bytes.dropFirst(8).firstRange(of: Array("KPJ".utf8))?.lowerBound)
        bytes[second] = 0
        let copy = "\(try TemporaryFolder.make())/\(name)"
        try writeFile(bytes, to: copy)
        await journal.close()

        let command = OperatorCommand("journal", "http://127.0.0.1:1")
        let shown = try await command.run(["show", copy])
        #expect(shown.code == 0, "\(shown)")
        #expect(shown.lines.count == 4)
        #expect(
            shown.lines.first?.hasSuffix("link_callback 01981000-0000-7000-8000-000000000000") == true,
            "\(shown)"
        )
        #expect(shown.lines.first?.hasPrefix("0  1970-01-01T00:00:01.000Z  ") == true)
        #expect(shown.lines.dropFirst().first == "\(second)  -  \(second)  damaged")
        #expect(shown.lines.last == "calls: 2, gaps: 1")
        #expect(!shown.output.contains("call-1"))
        #expect(try await command.run(["show", "--payload", copy]).output.contains("call-1"))

        let replayed = try await command.run(["replay", "--directory", folder, copy])
        #expect(replayed.code == 0, "\(replayed)")
        #expect(replayed.output == "Calls appended to the journal: 2\n")
        #expect(FileManager.default.fileExists(atPath: copy))
        let adjust = { (settings: inout Settings) in settings.journal.directory = folder }
        try await withService(adjust) { service in
            try await eventually("the calls are stored") {
                try await service.database.count("link_callbacks WHERE key IN ('call-1', 'call-3')") == 2
            }
        }

        for arguments in [["replay", "--directory", "\(folder)/none", copy], ["show", "\(folder)/none"]] {
            let failed = try await command.run(arguments)
            #expect(failed.code == 1)
            #expect(failed.errors.hasPrefix("push-server: "), "\(failed)")
        }
    }
}
