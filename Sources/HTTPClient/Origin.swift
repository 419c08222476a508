/// Where a request goes: scheme, host and port, as they stand in its URL. Requests of one origin share connections.
struct Origin: Hashable, Sendable {
    /// `https://kapi.kakao.com`: safe to show.
    let text: String
    /// What the field `Host` says: the authority, without a port that is the scheme's own (RFC 9110 §4.2).
    let host: String
    let isSecure: Bool

    /// Reads the origin of an absolute URL, or returns `nil` for a URL that this client does not call.
    ///
    /// The URL must be printable ASCII through and through: a space, a line end or a NUL would come to stand in the
    /// request's head. It must not carry a user's name, which would be a secret in a place where nobody looks for one.
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
        let authority = text.utf8.dropFirst(range.lowerBound)
        let ownPort = isSecure ? ":443" : ":80"
        host = String(
            decoding: authority.suffix(ownPort.utf8.count).elementsEqual(ownPort.utf8)
                ? authority.dropLast(ownPort.utf8.count) : authority,
            as: UTF8.self
        )
    }

    /// What stands behind the origin in one of its URLs: path and query, without a fragment (RFC 9112 §3.2.1).
    func target(of url: String) -> String {
        let target = url.utf8.dropFirst(text.utf8.count).prefix { $0 != UInt8(ascii: "#") }
        let start = target.first == UInt8(ascii: "/") ? "" : "/"
        return start + String(decoding: target, as: UTF8.self)
    }

    /// What ends an authority (RFC 3986 §3.2), and the backslash that some take for a slash.
    private static let endOfAuthority = Array("/?#\\".utf8)
    private static let schemes = ["https://", "http://"].map { Array($0.utf8) }

    private static func lengthOfScheme(_ bytes: UnsafeBufferPointer<UInt8>) -> Int? {
        for scheme in schemes where bytes.count > scheme.count {
            // 0x20 makes a letter small; `:` and `/` have it already.
            if zip(bytes, scheme).allSatisfy({ $0 | 0x20 == $1 }) { return scheme.count }
        }
        return nil
    }
}
