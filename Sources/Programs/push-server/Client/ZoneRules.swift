import Endpoints
import FoundationEssentials
import JSON
import Net

/// The time zone of a server's operators, as `GET /v1/time-zone` gives it. Pure.
struct ZoneRules: Equatable {
    /// A difference from UTC, which holds from a time on until the next one.
    private struct Offset: Equatable {
        let since: Int
        let seconds: Int
    }

    /// The differences from UTC, in seconds, which in PostgreSQL are less than a week. Something else may answer in the server's place.
    private static let possibleOffsets: ClosedRange<Int64> = -604_800...604_800

    let name: String
    private let offsets: [Offset]
    /// The end of the time of which the differences are known, in Unix seconds.
    private let until: Int

    /// - Throws: ``CommandFailure`` if the JSON is not a time zone, as from another server or version.
    init(_ json: JSONValue) throws {
        let offsets = (json["offsets"]?.array ?? []).compactMap { offset -> Offset? in
            guard let since = Self.time(offset["since"]), let seconds = offset["seconds"]?.integer,
                Self.possibleOffsets.contains(seconds)
            else { return nil }
            return Offset(since: since, seconds: Int(seconds))
        }
        guard let name = json["name"]?.string, let until = Self.time(json["until"]), !offsets.isEmpty else {
            throw CommandFailure(
                "The response is not a time zone in the expected form. Is the server of another version?"
            )
        }
        self.name = Text.printable(name)
        self.offsets = offsets
        self.until = until
    }

    private static func time(_ json: JSONValue?) -> Int? {
        json?.string.flatMap { Date(rfc3339: $0) }.map { Int($0.timeIntervalSince1970.rounded(.down)) }
    }

    // MARK: Showing

    /// Returns a time as the clocks of the zone show it, with its difference from UTC, such as `2026-12-01 09:00:00 +09:00`;
    /// `nil` for a time of which the difference is not known.
    func text(_ date: Date) -> String? {
        let time = Int(date.timeIntervalSince1970.rounded(.down))
        guard time < until, let offset = offsets.last(where: { $0.since <= time }) else { return nil }
        let text = CivilDate(unixSeconds: time + offset.seconds).rfc3339
        return "\(text.prefix(10)) \(text.suffix(8)) \(Self.offsetText(offset.seconds))"
    }

    /// Returns a difference from UTC, such as `+09:00`.
    private static func offsetText(_ seconds: Int) -> String {
        let minutes = abs(seconds) / 60
        return "\(seconds < 0 ? "-" : "+")\((minutes / 60).padded(2)):\((minutes % 60).padded(2))"
    }

    // MARK: Reading

    /// Returns a time in the form of ``text(_:)`` by RFC 3339, with or without seconds; `nil` for another text.
    static func rfc3339(shown text: String) -> String? {
        let parts = text.split(separator: " ", omittingEmptySubsequences: false)
        guard parts.count == 3, !parts[1].isEmpty else { return nil }
        let time = "\(parts[0])T\(parts[1])\(parts[1].utf8.count == 5 ? ":00" : "")\(parts[2])"
        return Date(rfc3339: time) == nil ? nil : time
    }

    /// Returns the time that the clocks of the zone show as `local`.
    ///
    /// - Throws: ``CommandFailure`` for a time that they do not show, or show twice, since clocks are changed then; and for one of
    ///   which the difference from UTC is not known.
    func date(_ local: LocalTime) throws -> Date {
        let found = offsets.indices.filter { index in
            let time = local.seconds - offsets[index].seconds
            return time >= offsets[index].since && time < end(of: index)
        }
        guard let index = found.first else { throw missing(local) }
        let times = found.map { rfc3339(local.seconds - offsets[$0].seconds, offsets[$0].seconds) }
        guard times.count == 1 else {
            throw CommandFailure.ofArguments(
                "\(local.text) is twice in \(name), where clocks are set back then. Give \(times.joined(separator: " or "))."
            )
        }
        return Date(timeIntervalSince1970: Double(local.seconds - offsets[index].seconds))
    }

    private func end(of index: Int) -> Int { index + 1 < offsets.count ? offsets[index + 1].since : until }

    /// Returns the failure of a time that the clocks do not show.
    private func missing(_ local: LocalTime) -> CommandFailure {
        // The change in whose gap the time is.
        let change = offsets.indices.dropFirst().first { index in
            local.seconds - offsets[index].seconds < offsets[index].since
                && local.seconds - offsets[index - 1].seconds >= offsets[index].since
        }
        guard let change else {
            return .ofArguments(
                "The time of \(local.text) in \(name) is not known so far away. Give it with its difference from UTC."
            )
        }
        let (since, before, after) = (offsets[change].since, offsets[change - 1].seconds, offsets[change].seconds)
        return .ofArguments(
            """
            There is no \(local.text) in \(name): clocks go from \(Self.clock(since + before)) to \(Self.clock(since + after)) then. \
            Give another time.
            """
        )
    }

    private static func clock(_ seconds: Int) -> Substring {
        CivilDate(unixSeconds: seconds).rfc3339.dropFirst(11).prefix(5)
    }

    private func rfc3339(_ time: Int, _ offset: Int) -> String {
        "\(CivilDate(unixSeconds: time + offset).rfc3339)\(Self.offsetText(offset))"
    }
}

/// A time without a zone, as clocks show it: `2026-12-01 09:00`. Pure.
struct LocalTime: Equatable {
    /// The forms of a time on the command line.
    static let forms = """
        "YYYY-MM-DD HH:MM" in the server's pushes.time_zone, or a time by RFC 3339 such as YYYY-MM-DDTHH:MM:SSZ
        """

    let text: String
    /// The seconds from 1970 to this time in UTC.
    let seconds: Int

    /// Reads `YYYY-MM-DD HH:MM` or `YYYY-MM-DD HH:MM:SS`, also with a `T`. Returns `nil` for anything else.
    init?(_ text: String) {
        var bytes = Array(text.utf8)
        guard bytes.count == 16 || bytes.count == 19, [UInt8(ascii: " "), UInt8(ascii: "T")].contains(bytes[10]) else {
            return nil
        }
        bytes[10] = UInt8(ascii: "T")
        bytes += (bytes.count == 16 ? ":00Z" : "Z").utf8
        guard let date = Date(rfc3339: String(decoding: bytes, as: UTF8.self)) else { return nil }
        self.text = text
        seconds = Int(date.timeIntervalSince1970)
    }
}
