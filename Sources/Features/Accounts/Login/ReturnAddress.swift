import Net

/// The address of the service that a user returns to after a login.
struct ReturnAddress: Sendable {
    private static let maximumBytes = 2048
    /// The parameters that the server adds. An address that has one could pass a ticket of an attacker to the service.
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
            let query = try? FormURLEncoded.parse(Array(text.utf8.drop { $0 != UInt8(ascii: "?") }.dropFirst())[...]),
            !query.contains(where: { Self.reserved.contains($0.name) })
        else { return nil }
        self.text = text
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
