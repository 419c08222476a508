import Net

/// The address of the service that a user returns to after a login.
struct ReturnAddress: Sendable {
    private static let maximumBytes = 2048
    /// The parameters that the server adds. An address that has one could pass a ticket of an attacker to the service, and so
    /// could one with a name that the service's framework reads as one: `ticket[]`, ` ticket`, `TICKET`.
    private static let reserved: Set<String> = ["ticket", "state", "error"]

    /// The address with its query, as the service gave it.
    let text: String

    /// Creates an address of a list of allowed ones. Returns `nil` for another one.
    ///
    /// Everything before the query must equal an entry byte for byte, so that no difference in how browsers read
    /// addresses can lead elsewhere.
    init?(_ text: String, allowed: [String]) {
        guard text.utf8.count <= Self.maximumBytes, Self.isPlain(text),
            allowed.contains(String(text.prefix { $0 != "?" })),
            let query = try? FormURLEncoded.parse(Self.query(of: text)[...]),
            !query.contains(where: { Self.isReserved($0.name) })
        else { return nil }
        self.text = text
    }

    /// Returns the query. Some frameworks separate parameters by `;` too, so it counts as `&` here.
    private static func query(of text: String) -> [UInt8] {
        text.utf8.drop { $0 != UInt8(ascii: "?") }.dropFirst()
            .map { $0 == UInt8(ascii: ";") ? UInt8(ascii: "&") : $0 }
    }

    /// Whether a word of a name is reserved. Words end at whatever is neither a letter, a digit, `-` nor `_`.
    private static func isReserved(_ name: String) -> Bool {
        name.lowercased().utf8.split { octet in
            switch octet {
            case 0x30...0x39, 0x61...0x7A, UInt8(ascii: "-"), UInt8(ascii: "_"): false
            default: true
            }
        }
        .contains { reserved.contains(String(decoding: $0, as: UTF8.self)) }
    }

    /// Returns the address with further parameters in its query.
    func adding(_ parameters: [(name: String, value: String)]) -> String {
        var query = FormBody()
        for (name, value) in parameters { query.append(name, value) }
        let separator = text.contains("?") ? (text.hasSuffix("?") || text.hasSuffix("&") ? "" : "&") : "?"
        return text + separator + String(decoding: query.bytes, as: UTF8.self)
    }

    /// Whether a text may be one of the allowed addresses.
    static func isEntry(_ text: String) -> Bool {
        guard isPlain(text), !text.contains("?"), text.utf8.count <= maximumBytes,
            let scheme = ["https://", "http://"].first(where: text.hasPrefix)
        else { return false }
        let host = text.dropFirst(scheme.count).prefix { $0 != "/" }
        // A path, so that every spelling of the address equals the entry.
        return !host.isEmpty && !host.contains("@") && text.utf8.count > scheme.utf8.count + host.utf8.count
    }

    /// Whether a text has only the characters that an address has without being encoded, and no fragment.
    private static func isPlain(_ text: String) -> Bool {
        text.utf8.allSatisfy { octet in
            switch octet {
            case UInt8(ascii: "\""), UInt8(ascii: "<"), UInt8(ascii: ">"), UInt8(ascii: "\\"), UInt8(ascii: "^"),
                UInt8(ascii: "`"), UInt8(ascii: "{"), UInt8(ascii: "|"), UInt8(ascii: "}"), UInt8(ascii: "#"):
                false
            default: octet > 0x20 && octet < 0x7F
            }
        }
    }
}
