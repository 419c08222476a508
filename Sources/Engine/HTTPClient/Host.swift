/// The host and port of a URL.
package struct Host: Hashable, Sendable, CustomStringConvertible {
    /// A name, or a numeric address without brackets.
    package let name: String
    package let port: UInt16

    /// Parses the authority of a URL: a name or an IPv4 address, or an IPv6 address in brackets, and perhaps a port (RFC
    /// 3986 §3.2). Returns `nil` for anything else.
    ///
    /// - Parameter defaultPort: The port of an authority that names none.
    init?(authority: some StringProtocol, defaultPort: UInt16) {
        var rest = authority[...]
        if rest.first == "[" {
            guard let end = rest.firstIndex(of: "]") else { return nil }
            name = String(rest[rest.index(after: rest.startIndex)..<end])
            guard name.contains(":"), name.utf8.allSatisfy(Self.isAddressByte) else { return nil }
            rest = rest[rest.index(after: end)...]
        } else {
            let end = rest.firstIndex(of: ":") ?? rest.endIndex
            name = String(rest[..<end])
            guard !name.isEmpty, name.utf8.count <= 253, name.utf8.allSatisfy(Self.isNameByte) else { return nil }
            rest = rest[end...]
        }
        guard !rest.isEmpty else {
            port = defaultPort
            return
        }
        // Swift's `UInt16("+5")` is 5.
        guard rest.first == ":", rest.dropFirst().utf8.allSatisfy({ (0x30...0x39).contains($0) }),
            let port = rest.count == 1 ? defaultPort : UInt16(rest.dropFirst()), port > 0
        else { return nil }
        self.port = port
    }

    private static func isAddressByte(_ byte: UInt8) -> Bool {
        switch byte {
        case 0x30...0x39, UInt8(ascii: "a")...UInt8(ascii: "f"), UInt8(ascii: "A")...UInt8(ascii: "F"),
            UInt8(ascii: ":"), UInt8(ascii: "."):
            true
        default: false
        }
    }

    /// Names that resolvers accept: the letters, digits, hyphens and points of host names, and underscores.
    private static func isNameByte(_ byte: UInt8) -> Bool {
        switch byte {
        case 0x30...0x39, UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
            UInt8(ascii: "-"), UInt8(ascii: "."), UInt8(ascii: "_"):
            true
        default: false
        }
    }

    package var description: String { name.contains(":") ? "[\(name)]:\(port)" : "\(name):\(port)" }
}
