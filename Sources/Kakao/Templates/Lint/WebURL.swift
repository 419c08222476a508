/// The parts of an `http` or `https` address that are checked.
package struct WebURL {
    /// The longest address. Longer ones do not fit into a message.
    private static let maximumBytes = 4096
    /// The longest host with its port in bytes, which allows 253 characters other than ASCII (RFC 1035 §2.3.4).
    private static let maximumAuthorityBytes = 1024

    /// Whether the scheme is `https`.
    package let isSecure: Bool
    /// In lower case, without the port.
    package let host: String
    /// The host, with the port unless it is that of the scheme.
    package let hostAndPort: String

    /// `nil` for anything but an absolute address with a host (RFC 9110 §4.2).
    package init?(_ text: String) {
        guard text.utf8.count <= Self.maximumBytes,
            text.utf8.allSatisfy({ $0 > 0x20 && $0 != 0x7F && $0 != UInt8(ascii: "\\") })
        else {
            // Programs disagree on which host an address with a backslash has.
            return nil
        }
        let lower = text.lowercased()
        let rest: Substring
        if lower.hasPrefix("https://") {
            (isSecure, rest) = (true, lower.dropFirst(8))
        } else if lower.hasPrefix("http://") {
            (isSecure, rest) = (false, lower.dropFirst(7))
        } else {
            return nil
        }
        let end = rest.utf8.firstIndex { "/?#".utf8.contains($0) } ?? rest.endIndex
        let authority = rest[..<end]
        guard authority.utf8.count <= Self.maximumAuthorityBytes, !authority.utf8.contains(UInt8(ascii: "@")) else {
            return nil
        }
        let host: Substring
        if authority.hasPrefix("[") {
            guard let end = authority.firstIndex(of: "]") else { return nil }
            host = authority[...end]
        } else {
            host = authority.prefix { $0 != ":" }
        }
        let port = authority.dropFirst(host.count)
        let number = port.dropFirst()
        guard port.isEmpty || port.first == ":", number.utf8.allSatisfy({ (0x30...0x39).contains($0) }),
            number.isEmpty || UInt16(number) ?? 0 > 0
        else { return nil }
        // A trailing dot says that the name is complete (RFC 1034 §3.1).
        let name = host.hasSuffix(".") ? host.dropLast() : host
        guard Self.isHost(name) else { return nil }
        self.host = String(name)
        let isUsual = number.isEmpty || UInt16(number) == (isSecure ? 443 : 80)
        hostAndPort = isUsual ? String(name) : "\(name):\(UInt16(number) ?? 0)"
    }

    /// Whether a text is a name, an IPv4 address or an IPv6 address in brackets.
    private static func isHost(_ host: Substring) -> Bool {
        if host.hasPrefix("[") {
            return host.utf8.count > 3 && host.dropFirst().dropLast().allSatisfy { $0.isHexDigit || ":.".contains($0) }
        }
        let labels = host.split(separator: ".", omittingEmptySubsequences: false)
        guard labels.allSatisfy({ !$0.isEmpty }), let last = labels.last else { return false }
        // A last label of digits is that of an address (WHATWG URL, "host parser"), which has four numbers.
        if last.allSatisfy(\.isNumber) { return labels.count == 4 && labels.allSatisfy { UInt8($0) != nil } }
        return !last.hasPrefix("0x")
            && host.unicodeScalars.allSatisfy { scalar in
                switch scalar {
                case "a"..."z", "0"..."9", "-", "_", ".": true
                default: !scalar.isASCII && !scalar.isActive
                }
            }
    }

    /// Whether the address is of this machine or a private network (RFC 1918, RFC 4193, RFC 6761 §6.3).
    package var isLocal: Bool {
        if host == "localhost" || host.hasSuffix(".localhost") || host.hasSuffix(".local") { return true }
        if host.hasPrefix("[") {
            return ["[::1]", "[::]"].contains(host)
                || ["[fc", "[fd", "[fe80:", "[::ffff:"].contains { host.hasPrefix($0) }
        }
        let numbers = host.split(separator: ".", omittingEmptySubsequences: false).map { UInt8($0) }
        guard numbers.count == 4, let first = numbers[0], let second = numbers[1], !numbers.contains(nil) else {
            return false
        }
        return first == 127 || first == 10 || first == 0 || first == 192 && second == 168
            || first == 172 && (16...31).contains(second) || first == 169 && second == 254
    }
}
