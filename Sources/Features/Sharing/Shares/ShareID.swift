import Crypto
package import FoundationEssentials
package import Schemas

/// The id of a share: a UUID version 7, which sorts by the time of creation. Its text is base64url, because it is a part
/// of short addresses.
package struct ShareID: Hashable, Sendable {
    /// The number of characters of an id.
    static let length = 22

    /// The id as PostgreSQL stores it.
    package let uuid: UUID

    package init(_ uuid: UUID) {
        self.uuid = uuid
    }

    /// Parses 22 characters of base64url; `nil` for anything else.
    package init?(_ text: String) {
        guard text.utf8.count == Self.length, let bytes = Base64URL.decode(text.utf8), bytes.count == 16 else {
            return nil
        }
        uuid = bytes.withUnsafeBytes { UUID(uuid: $0.loadUnaligned(as: uuid_t.self)) }
    }

    var bytes: [UInt8] { withUnsafeBytes(of: uuid.uuid) { Array($0) } }

    /// The 22 characters of base64url.
    package var text: String { Base64URL.encode(bytes) }

    /// Returns the landing address of the share.
    func landingAddress(at publicURL: String) -> String { "\(publicURL)/s/\(text)" }
}

extension Kind where Value == ShareID {
    /// The id of a share.
    package static var shareID: Kind {
        Kind(
            // The last character has two of the 128 bits.
            text: .text(pattern: "^[A-Za-z0-9_-]{21}[AQgw]$"),
            allowed: "the id of a share, 22 characters of base64url",
            parse: { ShareID($0) },
            format: \.text
        )
    }
}
