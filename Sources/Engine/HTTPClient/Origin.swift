/// The origin of a request: scheme, host and port, as written in its URL. Requests to the same origin share
/// connections.
struct Origin: Hashable, Sendable {
    /// The origin as text, for example `https://kapi.kakao.com`. It is safe to show.
    let text: String
    let host: Host
    /// The value of `Host`: the authority, without the scheme's default port (RFC 9110 §4.2).
    let authority: String
    let isSecure: Bool

    /// Parses the origin of an absolute URL. Returns `nil` for a URL that this client does not support.
    ///
    /// The URL must consist of printable ASCII: a space, line end or NUL would be copied into the request's head. It
    /// must not contain user information, which would be a secret in an unexpected place.
    init?(url: String) {
        var url = url
        let range: Range<Int>? = url.withUTF8 { bytes in
            guard bytes.allSatisfy({ (0x21...0x7E).contains($0) }) else { return nil }
            guard let start = Self.lengthOfScheme(bytes) else { return nil }
            let end = bytes[start...].firstIndex { Self.endOfAuthority.contains($0) } ?? bytes.count
            let hasUser = bytes[start..<end].contains(UInt8(ascii: "@"))
            let hasPath = end == bytes.count || bytes[end] != UInt8(ascii: "\\")
            return end > start && !hasUser && hasPath ? start..<end : nil
        }
        guard let range else { return nil }
        text = String(decoding: url.utf8.prefix(range.upperBound), as: UTF8.self)
        isSecure = range.lowerBound == Self.schemes[0].count
        let authority = String(decoding: text.utf8.dropFirst(range.lowerBound), as: UTF8.self)
        let ownPort: UInt16 = isSecure ? 443 : 80
        guard let host = Host(authority: authority, defaultPort: ownPort) else { return nil }
        self.host = host
        // As written in the URL, since an address has several notations.
        self.authority =
            authority.hasSuffix(":\(ownPort)") ? String(authority.dropLast("\(ownPort)".count + 1)) : authority
    }

    /// Returns the request target for a URL of this origin: path and query, without the fragment (RFC 9112 §3.2.1).
    func target(of url: String) -> String {
        let target = url.utf8.dropFirst(text.utf8.count).prefix { $0 != UInt8(ascii: "#") }
        let start = target.first == UInt8(ascii: "/") ? "" : "/"
        return start + String(decoding: target, as: UTF8.self)
    }

    /// The characters that end an authority (RFC 3986 §3.2), plus the backslash, which some parsers treat as a slash.
    private static let endOfAuthority = Array("/?#\\".utf8)
    private static let schemes = ["https://", "http://"].map { Array($0.utf8) }

    private static func lengthOfScheme(_ bytes: UnsafeBufferPointer<UInt8>) -> Int? {
        for scheme in schemes where bytes.count > scheme.count {
            // 0x20 converts a letter to lower case; `:` and `/` have that bit already.
            if zip(bytes, scheme).allSatisfy({ $0 | 0x20 == $1 }) { return scheme.count }
        }
        return nil
    }
}
