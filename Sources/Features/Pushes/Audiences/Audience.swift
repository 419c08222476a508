import Endpoints
import FoundationEssentials
import Postgres
import Schemas

/// The name of an audience: 1 to 100 letters, digits, `_`, `.` and `-`, all of ASCII.
package struct AudienceName: Sendable, Equatable, PageCursor {
    package static let allowed = "1 to 100 letters, digits, _, . and -"
    static let schema = Schema.text(pattern: "^[A-Za-z0-9_.-]{1,100}$")

    package let text: String

    /// Creates a name. Returns `nil` for an invalid name.
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

extension AudienceName {
    package init?(cursor: String) { self.init(cursor) }

    package var cursor: String { text }
}

/// A named set of users to which pushes can be sent, without the users themselves.
struct Audience: Sendable {
    let name: AudienceName
    /// The number of distinct users.
    let users: Int64
    /// When the users were last replaced.
    let updatedAt: Date
}

extension Audience {
    static let shape = Shape<Audience>(
        "Audience",
        [
            .member("name", .text, "Its name.", \.name.text),
            .member("users", .count, "The number of its users.", \.users),
            .member("updated_at", .time, "When its users were last replaced.", \.updatedAt),
        ]
    )
}

extension Audience {
    /// Decodes the columns `name`, `users` and `updated_at`.
    init(_ row: PostgresRow) throws {
        let (text, users, updatedAt) = try row.decode(String.self, Int64.self, Date.self)
        guard let name = AudienceName(text) else { throw PostgresError(.decoding, detail: "invalid audience name") }
        self.init(name: name, users: users, updatedAt: updatedAt)
    }
}
