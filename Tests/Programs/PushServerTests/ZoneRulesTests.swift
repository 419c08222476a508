import Endpoints
import FoundationEssentials
import JSON
import Testing

@testable import push_server

/// Tests of ``ZoneRules`` and ``ShownTimes``.
@Suite struct ZoneRulesTests {
    private static func zone(_ name: String, _ offsets: [(String, Int)]) throws -> ZoneRules {
        try ZoneRules([
            "name": .string(name), "until": "2031-01-01T00:00:00.000Z",
            "offsets": .array(offsets.map { ["since": .string($0.0), "seconds": .integer($0.1)] }),
        ])
    }

    private static func seoul() throws -> ZoneRules { try zone("Asia/Seoul", [("2016-01-01T00:00:00.000Z", 32_400)]) }

    private static func berlin() throws -> ZoneRules {
        try zone(
            "Europe/Berlin",
            [
                ("2016-01-01T00:00:00.000Z", 3600), ("2026-03-29T01:00:00.000Z", 7200),
                ("2026-10-25T01:00:00.000Z", 3600),
            ]
        )
    }

    @Test("A difference from UTC that no zone has is refused", arguments: [Int(Int64.max), Int(Int64.min), 604_801])
    func impossible(seconds: Int) {
        #expect(throws: CommandFailure.self) { try Self.zone("Asia/Seoul", [("2016-01-01T00:00:00.000Z", seconds)]) }
    }

    @Test(
        "A time without a zone is one of the server's zone",
        arguments: [
            ("2026-12-01 09:00", "2026-12-01T00:00:00Z"), ("2026-12-01T09:00", "2026-12-01T00:00:00Z"),
            ("2026-12-01 09:00:30", "2026-12-01T00:00:30Z"), ("2026-12-01 00:00", "2026-11-30T15:00:00Z"),
        ]
    )
    func reading(local: String, expected: String) throws {
        let time = try #require(LocalTime(local))
        #expect(try Self.seoul().date(time).rfc3339Seconds == expected)
    }

    @Test(
        "Other texts are no times without a zone",
        arguments: [
            "", "2026-12-01", "2026-12-01 9:00", "2026-12-01T09:00:00Z", "2026-12-01T09:00:00+09:00",
            "2026-02-30 09:00",
            "2026-12-01 24:00", "2026-12-01 09:00 ", "2026-12-01x09:00", "2026-12-01 09:0a", "２026-12-01 09:00",
        ]
    )
    func others(text: String) {
        #expect(LocalTime(text) == nil)
    }

    @Test(
        "A time that clocks do not show, or show twice, is refused, and the others around it are read",
        arguments: [
            ("2026-03-29 01:59", "2026-03-29T00:59:00Z"), ("2026-03-29 03:00", "2026-03-29T01:00:00Z"),
            ("2026-03-29 02:00", nil), ("2026-03-29 02:59", nil), ("2026-10-25 01:59", "2026-10-24T23:59:00Z"),
            ("2026-10-25 02:00", nil), ("2026-10-25 02:59", nil), ("2026-10-25 03:00", "2026-10-25T02:00:00Z"),
        ] as [(String, String?)]
    )
    func changes(local: String, expected: String?) throws {
        let (zone, time) = (try Self.berlin(), try #require(LocalTime(local)))
        #expect((try? zone.date(time))?.rfc3339Seconds == expected)
    }

    @Test(
        "A time in the form in which commands show it is read",
        arguments: [
            ("2026-12-01 09:00:00 +09:00", "2026-12-01T09:00:00+09:00"),
            ("2026-12-01 09:00 -03:30", "2026-12-01T09:00:00-03:30"), ("2026-12-01 09:00:00", nil),
            ("2026-12-01 09:00:00 KST", nil), ("2026-12-01  +09:00", nil), ("2026-12-01 9:00 +09:00", nil),
        ] as [(String, String?)]
    )
    func shownForm(text: String, expected: String?) {
        #expect(ZoneRules.rfc3339(shown: text) == expected)
    }

    @Test("Times in a text of the server are shown as the clocks show them")
    func textWithTimes() throws {
        let text = "send_at 2026-07-01T22:30:15.789Z is past: 2026-07-01T22:30:16Z."
        let times = ShownTimes.local(try Self.berlin())
        #expect(times.shown(in: text) == "send_at 2026-07-02 00:30:15 +02:00 is past: 2026-07-02 00:30:16 +02:00.")
        #expect(ShownTimes.utc.shown(in: text) == text)
    }

    @Test("The refusal of a time says how the clocks change, or the times that can be meant")
    func refusals() throws {
        func failure(_ local: String) throws -> String {
            let (zone, time) = (try Self.berlin(), try #require(LocalTime(local)))
            return try #require(throws: CommandFailure.self) { try zone.date(time) }.description
        }
        let missing = try failure("2026-03-29 02:30")
        #expect(missing.contains("There is no 2026-03-29 02:30 in Europe/Berlin: clocks go from 02:00 to 03:00"))
        let double = try failure("2026-10-25 02:30")
        #expect(double.contains("2026-10-25T02:30:00+02:00 or 2026-10-25T02:30:00+01:00"), "\(double)")
        for far in ["2015-12-31 23:00", "2031-01-01 02:00"] { #expect(try failure(far).contains("not known")) }
    }

    @Test("Times are shown as the clocks show them, with the difference from UTC, and far ones in UTC")
    func showing() throws {
        let times = ShownTimes.local(try Self.berlin())
        let json: JSONValue = [
            "name": "2026-12-01T00:00:00Z", "created_at": "2026-07-01T22:30:15.789Z", "send_at": .null,
            "items": [["waits_until": "2026-12-31T23:00:00.000Z", "since": "2040-01-01T00:00:00.000Z"]],
        ]
        #expect(
            times.shown(json) == [
                "name": "2026-12-01T00:00:00Z", "created_at": "2026-07-02 00:30:15 +02:00", "send_at": .null,
                "items": [["waits_until": "2027-01-01 00:00:00 +01:00", "since": "2040-01-01T00:00:00.000Z"]],
            ]
        )
        #expect(ShownTimes.utc.shown(json) == json)
        let warning: JSONValue = ["warnings": [["message": "It expires at 2026-07-01T22:30:15.789Z."], 1]]
        #expect(times.shown(warning)["warnings"]?[0]?["message"] == "It expires at 2026-07-02 00:30:15 +02:00.")
        let date = try #require(Date(rfc3339: "2026-12-01T00:00:00Z"))
        #expect(ShownTimes.local(try Self.seoul()).full(date) == "2026-12-01 09:00:00 +09:00 (Asia/Seoul)")
        #expect(ShownTimes.utc.full(date) == "2026-12-01T00:00:00Z")
        let west = try Self.zone("America/St_Johns", [("2016-01-01T00:00:00Z", -12_600)])
        #expect(west.text(date) == "2026-11-30 20:30:00 -03:30")
    }

    @Test("The question before a push says what is sent, of which kind, and when")
    func question() throws {
        let now = try #require(Date(rfc3339: "2026-11-30T00:00:00Z"))
        let times = ShownTimes.local(try Self.seoul())
        var push = JSONObject()
        var dryRun: JSONObject = ["kind": .null, "phones": [], "first_words": "(광고) 가을", "warnings": []]
        func summary() -> [[String]] { DryRun.summary(of: push, .object(dryRun), times, now: now) }
        #expect(summary() == [["first_words", "(광고) 가을"], ["kind", "not given"], ["time", "now"]])
        dryRun["kind"] = "advertising"
        push["send_at"] = "2026-12-01T00:00:00Z"
        #expect(
            summary().dropFirst() == [
                ["kind", "advertising"], ["time", "2026-12-01 09:00:00 +09:00 (Asia/Seoul), in 1 d 0 h"],
            ]
        )
        dryRun["needs_approval"] = true
        let time = "2026-12-01 09:00:00 +09:00 (Asia/Seoul), in 1 d 0 h"
        #expect(summary().last == ["time", "\(time); it expires unless it is approved within 24 hours"])
        dryRun["waits_until"] = "2026-12-01T23:00:00Z"
        dryRun["needs_approval"] = false
        let begin = "2026-12-02 08:00:00 +09:00 (Asia/Seoul), in 1 d 23 h, when the hours for advertising begin"
        #expect(summary().last == ["time", begin])
        dryRun["waits_until"] = .null
        push["send_at"] = "2026-11-29T23:55:00Z"
        #expect(summary().last == ["time", "now: 2026-11-30 08:55:00 +09:00 (Asia/Seoul) is past"])
        push["send_at"] = nil
        dryRun["needs_approval"] = true
        #expect(summary().last == ["time", "once it is approved"])
        push = ["name": "Sale", "to_testers": true, "expires_at": "2026-12-01T00:00:00Z"]
        #expect(summary().prefix(2) == [["name", "Sale"], ["audience", "the testers"]])
        #expect(summary().last == ["expires", "2026-12-01 09:00:00 +09:00 (Asia/Seoul)"])
        dryRun["waits_until"] = "2026-12-01T23:00:00Z"
        let never = """
            never, since it expires at 2026-12-01 09:00:00 +09:00 (Asia/Seoul), and the hours for advertising begin at 2026-12-02 \
            08:00:00 +09:00 (Asia/Seoul)
            """
        #expect(summary().contains(["time", never]))
        push["expires_at"] = "2026-11-29T00:00:00Z"
        let expired = "never, since it has expired at 2026-11-29 09:00:00 +09:00 (Asia/Seoul)"
        #expect(summary().contains(["time", expired]))
    }

    @Test("Before a question, a text that is cut has its rest in brackets, with their meaning")
    func cut() {
        let text: JSONObject = ["text": "Half price until midnight", "visible": "Half price", "path": "for_fcm.text"]
        let phone: JSONObject = ["platform": "fcm", "shown_by": "system", "text": .object(text)]
        #expect(
            ShownPhones.rows(["phones": [.object(phone)]]) == [
                ["Android", "Half price[ until midnight]"],
                ["", "(what is in […] can be read only after the notification is opened)"],
            ]
        )
    }
}
