internal import FoundationEssentials

/// The name of an audience: 1 to 100 letters, digits, `_`, `.` and `-`, all of ASCII.
package struct AudienceName: Sendable, Equatable {
    package static let allowed = "1 to 100 letters, digits, _, . and -"

    package let text: String

    /// `nil` for a text that is no such name.
    package init?(_ text: String) {
        guard (1...100).contains(text.utf8.count), text.utf8.allSatisfy(Self.isAllowed) else { return nil }
        self.text = text
    }

    private static func isAllowed(_ octet: UInt8) -> Bool {
        switch octet {
        case UInt8(ascii: "A")...UInt8(ascii: "Z"), UInt8(ascii: "a")...UInt8(ascii: "z"),
            UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "_"), UInt8(ascii: "."), UInt8(ascii: "-"):
            true
        default: false
        }
    }
}

extension AudienceName: PageCursor {
    init?(cursor: String) { self.init(cursor) }

    var cursor: String { text }
}

/// Users that pushes can be sent to by a name, without those users.
struct Audience: Sendable {
    let name: AudienceName
    /// How many different users it has.
    let users: Int64
    /// When it was last replaced.
    let updatedAt: Date
}
