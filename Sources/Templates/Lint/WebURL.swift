/// The parts of an `http` or `https` address that a template is checked for.
struct WebURL {
    /// The longest address. Longer ones do not fit into a message.
    private static let maximumBytes = 4096

    let isSecure: Bool
    /// In lower case, without the port.
    let host: String
    /// The host with the port, if the address names one.
    let hostAndPort: String

    /// `nil` for anything but an absolute address with a host (RFC 9110 §4.2).
    init?(_ text: String) {
        guard text.utf8.count <= Self.maximumBytes, text.utf8.allSatisfy({ $0 > 0x20 && $0 != 0x7F }) else {
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
        let authority = rest.prefix { !"/?#\\".contains($0) }
        guard !authority.contains("@") else { return nil }
        let host: Substring
        if authority.hasPrefix("[") {
            guard let end = authority.firstIndex(of: "]") else { return nil }
            host = authority[...end]
        } else {
            host = authority.prefix { $0 != ":" }
        }
        let port = authority.dropFirst(host.count)
        guard !host.isEmpty, port.isEmpty || port.first == ":" && UInt16(port.dropFirst()) != nil else { return nil }
        self.host = String(host)
        hostAndPort = String(authority)
    }

    /// Whether the address is of this machine or a private network (RFC 1918, RFC 4193, RFC 6761 §6.3).
    var isLocal: Bool {
        if host == "localhost" || host.hasSuffix(".localhost") || host.hasSuffix(".local") { return true }
        if host.hasPrefix("[") { return host == "[::1]" || host.hasPrefix("[fc") || host.hasPrefix("[fd") }
        let numbers = host.split(separator: ".", omittingEmptySubsequences: false).map { UInt8($0) }
        guard numbers.count == 4, let first = numbers[0], let second = numbers[1], !numbers.contains(nil) else {
            return false
        }
        return first == 127 || first == 10 || first == 0 || first == 192 && second == 168
            || first == 172 && (16...31).contains(second) || first == 169 && second == 254
    }
}
