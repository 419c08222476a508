package import Schemas

/// The names of time zones in the IANA database, by their form. PostgreSQL knows which exist.
enum TimeZoneName {
    static let pattern = "^[A-Za-z][A-Za-z0-9_+-]{0,31}(/[A-Za-z0-9_+-]{1,32}){0,2}$"

    /// Returns a text that has the form of a name; `nil` for another one.
    static func parse(_ text: String) -> String? {
        let parts = text.split(separator: "/", omittingEmptySubsequences: false)
        guard (1...3).contains(parts.count), text.utf8.first.map({ $0 >= 0x41 }) == true else { return nil }
        let isValid = parts.allSatisfy { part in
            (1...32).contains(part.utf8.count)
                && part.utf8.allSatisfy { octet in
                    switch octet {
                    case 0x30...0x39, 0x41...0x5A, 0x61...0x7A, UInt8(ascii: "_"), UInt8(ascii: "+"), UInt8(ascii: "-"):
                        true
                    default: false
                    }
                }
        }
        return isValid ? text : nil
    }
}

extension Kind where Value == String {
    /// The name of a time zone in the IANA database.
    package static var timeZone: Kind {
        Kind(
            text: .text(pattern: TimeZoneName.pattern),
            allowed: "the name of a time zone whose difference from UTC is whole hours, such as Asia/Seoul or UTC",
            parse: TimeZoneName.parse,
            format: \.self
        )
    }
}

extension SettingKind where Value == String {
    /// The name of a time zone in the IANA database.
    package static let timeZone = SettingKind(
        "a time zone",
        problem: "must be the name of a time zone, such as Asia/Seoul.",
        parse: TimeZoneName.parse,
        text: \.self
    )
}
