import Locking
package import Postgres
import Settings

/// The hours of each day in which advertising may be sent. From 21:00 to 08:00 in Korea it needs a consent of its own
/// (Information and Communications Network Act, article 50).
package struct AdvertisingHours: Sendable, Equatable {
    private static let day = 86_400

    /// Times of the day in seconds, 0 to 86,400. If `ends` is not after `begins`, it is on the next day.
    package var begins = 8 * 3600
    package var ends = 21 * 3600

    package init() {}

    /// Creates hours from a text such as `08:00-21:00`. Returns `nil` for an invalid text.
    init?(_ text: String) {
        let times = text.split(separator: "-", omittingEmptySubsequences: false).map { Self.seconds($0) }
        guard times.count == 2, let begins = times[0], let ends = times[1] else { return nil }
        (self.begins, self.ends) = (begins, ends)
    }

    var text: String { "\(Self.time(begins).prefix(5))-\(Self.time(ends).prefix(5))" }

    /// Returns the seconds of a time such as `08:00`.
    private static func seconds(_ text: Substring) -> Int? {
        let parts = text.split(separator: ":", omittingEmptySubsequences: false)
        guard parts.count == 2, parts.allSatisfy({ $0.utf8.count == 2 && $0.utf8.allSatisfy(isDigit) }),
            let hours = Int(parts[0]), let minutes = Int(parts[1]), minutes < 60, hours * 3600 + minutes * 60 <= day
        else { return nil }
        return hours * 3600 + minutes * 60
    }

    private static func isDigit(_ octet: UInt8) -> Bool { (0x30...0x39).contains(octet) }

    /// Returns a time such as `08:00:00`.
    private static func time(_ seconds: Int) -> String {
        [seconds / 3600, seconds / 60 % 60, seconds % 60].map { $0 < 10 ? "0\($0)" : "\($0)" }.joined(separator: ":")
    }

    /// Returns the parameter of statements that call `advertising_ends` or `advertising_begins`.
    package func parameter(in timeZone: String) -> PostgresValue {
        .texts([timeZone, Self.time(begins), Self.time(ends)])
    }
}

extension AdvertisingHours {
    /// Returns a condition: whether a push may be sent at a moment, because it is no advertising, goes to testers, or the moment is within
    /// the hours.
    static func admit(_ push: SQL = "pushes", hours: SQL, at moment: SQL = "clock_timestamp()") -> SQL {
        """
        (
            \(push).kind IS DISTINCT FROM 'advertising' OR \(push).to_testers
            OR advertising_ends(\(hours), \(moment)) IS NOT NULL
        )
        """
    }
}

extension PushSettings {
    /// The hours for advertising in their time zone, as the parameter of statements.
    var hours: PostgresValue { advertisingHours.parameter(in: timeZone) }
}

extension Locked<PushSettings> {
    /// The hours for advertising at present, as the parameter of statements.
    var hours: PostgresValue { withLock { $0.hours } }
}

extension SettingKind where Value == AdvertisingHours {
    /// Hours of the day.
    static var hours: SettingKind {
        SettingKind(
            "hours such as `08:00-21:00`",
            problem: "must be hours of the day, such as 08:00-21:00. 00:00-24:00 is the whole day.",
            parse: { AdvertisingHours($0) },
            text: \.text
        )
    }
}
