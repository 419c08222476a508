import ArgumentParser
import JSON
import Pushes
import Schemas
import Server
import ServiceTesting
import TestSupport
import Testing

@testable import Runtime
@testable import push_server

/// Tests of the output and the requests of the `pushes` commands, without a process.
@Suite struct PushProgressTests {
    private static func progress(_ state: PushState, _ users: PushCounts, rate: Double? = nil) -> PushProgress {
        PushProgress(state: state, users: users, rate: rate)
    }

    private static let half = PushCounts(total: 10_000, sent: 4490, failed: 10)

    @Test("A line for a log has the state, the progress, the failures, the rate and the time left")
    func plainLine() {
        #expect(
            Self.progress(.sending, Self.half, rate: 900).line
                == "sending 45% 4,490/10,000 users, 10 failed, 900/s, 7 s left"
        )
        #expect(Self.progress(.sending, PushCounts(total: 2)).line == "sending 0% 0/2 users")
        #expect(Self.progress(.scheduled, PushCounts(), rate: 0).line == "scheduled 0/0 users")
        #expect(
            Self.progress(.done, PushCounts(total: 6, sent: 3, failed: 1, uncertain: 1, skipped: 1), rate: 1).line
                == "done 100% 3/6 users, 1 failed, 1 uncertain, 1 skipped"
        )
    }

    @Test("What stands still has the reason in place of the rate and the time left")
    func standstill() {
        var progress = Self.progress(.sending, Self.half, rate: 900)
        progress.standstill = "waits"
        #expect(progress.line == "sending 45% 4,490/10,000 users, waits, 10 failed")
        #expect(progress.line(width: 40) == "[###....] 45%  4,490/10,000 users  waits")
    }

    @Test("There is no percentage while users are being added, and no time left while nothing is sent")
    func unknown() {
        #expect(
            Self.progress(.preparing, Self.half, rate: 3.42).line == "preparing 4,490/10,000 users, 10 failed, 3.4/s"
        )
        #expect(Self.progress(.sending, Self.half, rate: 0).line == "sending 45% 4,490/10,000 users, 10 failed, 0/s")
        #expect(Self.progress(.paused, Self.half, rate: 5).line == "paused 4,490/10,000 users, 10 failed")
    }

    @Test("The progress is 100 % only when no user is pending")
    func wholePercent() {
        #expect(Self.progress(.sending, PushCounts(total: 1000, sent: 999)).line.hasPrefix("sending 99%"))
        #expect(Self.progress(.sending, PushCounts(total: 1000, sent: 1000)).line.hasPrefix("sending 100%"))
        #expect(Self.progress(.done, PushCounts()).line == "done 100% 0/0 users")
    }

    @Test(
        "On a terminal the bar takes the remaining columns; the least important parts are omitted first",
        arguments: [
            (200, "[##################......................] 45%  4,490/10,000 users  10 failed  900/s  7 s left"),
            (80, "[###########...............] 45%  4,490/10,000 users  10 failed  900/s  7 s left"),
            (60, "[##....] 45%  4,490/10,000 users  10 failed  900/s  7 s left"),
            (52, "45%  4,490/10,000 users  10 failed  900/s  7 s left"),
            (50, "[##....] 45%  4,490/10,000 users  10 failed  900/s"),
            (23, "45%  4,490/10,000 users"),
            (10, "45%  4,490"),
            (0, ""),
        ]
    )
    func width(_ width: Int, _ line: String) {
        let progress = Self.progress(.sending, Self.half, rate: 900)
        #expect(progress.line(width: width) == line)
    }

    @Test("No line is wider than the terminal, for any width and push", arguments: PushState.allCases)
    func neverTooWide(state: PushState) {
        let large = PushCounts(total: 10_000_000, sent: 5_000_000, failed: 12_345, uncertain: 678, skipped: 9)
        for users in [PushCounts(), Self.half, large] {
            for width in 0...200 {
                let line = Self.progress(state, users, rate: 12_345.6).line(width: width)
                #expect(line.count <= width)
                // 110 columns suffice for the longest of these lines with a bar.
                #expect(width < 110 || state != .sending || line.hasPrefix("["))
            }
        }
    }

    @Test("The rate is that of the last ten seconds, and restarts when the number of users decreases")
    func rate() {
        let start = ContinuousClock.now
        var meter = RateMeter()
        #expect(meter.perSecond == nil)
        meter.add(0, at: start)
        #expect(meter.perSecond == nil)
        for second in 1...30 { meter.add(Int64(second * 100), at: start + .seconds(second)) }
        #expect(meter.perSecond == 100)
        for second in 31...41 { meter.add(3000, at: start + .seconds(second)) }
        #expect(meter.perSecond == 0)
        meter.add(2000, at: start + .seconds(42))
        #expect(meter.perSecond == nil)
        meter.add(2005, at: start + .seconds(44))
        #expect(meter.perSecond == 2.5)
    }

    @Test("Numbers, rates and durations are formatted for people")
    func formats() {
        #expect(
            [0, 999, 1000, 1_234_567, -1000].map { Text.grouped($0) } == ["0", "999", "1,000", "1,234,567", "-1,000"]
        )
        #expect(
            [0, 0.04, 0.4, 9.96, 10, 1234.5].map(Text.rate) == ["0/s", "0/s", "0.4/s", "9.9/s", "10/s", "1,234/s"]
        )
        #expect(Text.rate(.infinity).hasSuffix("/s"))
        #expect(
            [0, 1.0 / 3_000_000, 0.0001, 0.0033, 0.5].map(Text.percent)
                == ["0.00 %", "less than 0.01 %", "0.01 %", "0.33 %", "50 %"]
        )
        #expect(
            [0.2, 59, 60, 3599.5, 7500, 90_000, .infinity].map(Text.duration).prefix(6)
                == ["1 s", "59 s", "1 min 0 s", "1 h 0 min", "2 h 5 min", "1 d 1 h"]
        )
    }

    @Test("A table with Korean text has aligned columns, and a text cannot control the terminal")
    func table() {
        #expect(
            Text.table([["id", "name", "n"], ["1", "여름 세일", "2"], ["2", "x", "3"]])
                == ["id  name       n", "1   여름 세일  2", "2   x          3"]
        )
        #expect(Text.printable("a\u{1B}[2Jb\n\u{9B}c\u{202E}한") == "a?[2Jb??c?한")
    }

    // MARK: Requests

    @Test("A request contains only the members that are set, and equal options have equal bytes")
    func request() throws {
        let message = try JSONValue(parsing: #"{"for_gcm":{"custom_field":{"n":1.0}}}"#)
        func request(_ options: [String]) throws -> JSONValue {
            let send = try PushesCommand.Send.parse(["--user", "1", "--user", "2", "--message", "{}"] + options)
            let times = PushesCommand.Send.Times(sendAt: send.at, expiresAt: send.expires)
            return .object(send.request(message, to: .users([1, 2]), times))
        }
        #expect(
            try request([]).description
                == #"{"audience":{"uuids":["1","2"]},"message":{"for_gcm":{"custom_field":{"n":1.0}}}}"#
        )
        let options = [
            "--except-tag", "a", "--name", "여름", "--kind", "advertising", "--at", "2026-11-21T08:15:30Z", "--expires",
            "2026-11-22T08:15:30Z", "--users-per-second", "10", "--delivery", "at_most_once", "--dry-run",
        ]
        let json = try request(options)
        #expect(
            json.object?.members.map(\.name) == [
                "audience", "except", "message", "name", "kind", "send_at", "expires_at", "users_per_second",
                "delivery", "dry_run",
            ]
        )
        #expect(json["delivery"] == "at_most_once")
        #expect(try request(options).bytes() == json.bytes())
    }

    @Test("Up to 10,000 users of a file are named in the request, more have to be uploaded, and bad lines are reported")
    func userFile() throws {
        func file(_ count: Int) throws -> UserFile { try UserFile(Array((1...count).map { "\($0)\n" }.joined().utf8)) }
        #expect(try file(3) == .few([1, 2, 3]))
        #expect(try file(10_000) == .few(Array(1...10_000)))
        #expect(try file(10_001) == .many(lines: 10_001))
        #expect(try UserFile(Array("7\r\n\r\n8".utf8)) == .few([7, 8]))
        let failure = try #require(throws: CommandFailure.self) { try UserFile(Array("1\nx\n3\n-4\n".utf8)) }
        #expect(failure.description.contains(": 2, 4."))
        #expect(throws: CommandFailure.self) { try UserFile([]) }
    }

    @Test(
        "The recipients of a push are specified in exactly one way",
        arguments: [
            ([], false), (["--user", "1", "--user", "2"], true), (["--everyone"], true), (["--audience", "a"], true),
            (["--users-file", "f"], true), (["--users-file", "f", "--audience", "a"], true),
            (["--tag-any", "a"], true),
            (["--user", "1", "--everyone"], false), (["--tag-any", "a", "--tag-all", "b"], false),
            (["--audience", "a", "--user", "1"], false), (["--user", "+5"], false), (["--user", "0"], false),
            (["--audience", "a/b"], false), (["--to-testers"], true), (["--to-testers", "--everyone"], false),
        ]
    )
    func recipients(_ arguments: [String], isRight: Bool) {
        let options = try? RecipientOptions.parse(arguments)
        #expect((options != nil) == isRight)
    }

    @Test("A large file is uploaded under a name made from the idempotency key, unless another one is given")
    func uploadName() throws {
        let path = "\(try TemporaryFolder.make())/users"
        try writeFile(Array((1...10_001).map { "\($0)\n" }.joined().utf8), to: path)
        let (audience, upload) = try RecipientOptions.parse(["--users-file", path]).audience(idempotencyKey: "k-1")
        #expect(audience?.requestJSON == ["audience": "file-10001-k-1"])
        #expect(upload?.name == "file-10001-k-1")
        #expect(FileAudienceName("file-10001-k-1") == FileAudienceName(lines: 10_001))
        for name in ["file-1-k", "file-10001", "files-10001-k", "file-abcde-k"] {
            #expect(FileAudienceName(name) == nil, "\(name)")
        }
        #expect(upload?.isKept == false)
        let named = try RecipientOptions.parse(["--users-file", path, "--audience", "mine"]).audience(
            idempotencyKey: "k"
        )
        #expect(named.0?.requestJSON == ["audience": "mine"])
        #expect(named.1?.isKept == true)
    }
}
