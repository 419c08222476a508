import FoundationEssentials
import Net

/// An HTTP proxy that is asked for a tunnel to the host of each connection (`CONNECT`, RFC 9110 §9.3.6).
package struct HTTPProxy: Sendable, Equatable, CustomStringConvertible {
    /// The proxy's host and port.
    package let host: Host
    /// The value of `Proxy-Authorization`, which is a secret.
    private let authorization: String?

    /// Parses the URL of a proxy: `http://host:port`, or `http://user:password@host:port` with both percent-encoded. The
    /// default port is 80. Returns `nil` for anything else.
    package init?(url: String) {
        let scheme = "http://"
        guard url.lowercased().hasPrefix(scheme), url.utf8.allSatisfy({ (0x21...0x7E).contains($0) }) else {
            return nil
        }
        var rest = url.dropFirst(scheme.count)
        if rest.hasSuffix("/") { rest.removeLast() }
        if let at = rest.lastIndex(of: "@") {
            let parts = rest[..<at].split(separator: ":", maxSplits: 1, omittingEmptySubsequences: false)
            guard let user = Self.decoded(parts[0]), let password = Self.decoded(parts.count > 1 ? parts[1] : ""),
                !user.contains(":")
            else { return nil }
            // RFC 7617 §2.
            authorization = "Basic \(Data("\(user):\(password)".utf8).base64EncodedString())"
            rest = rest[rest.index(after: at)...]
        } else {
            authorization = nil
        }
        guard let host = Host(authority: rest, defaultPort: 80) else { return nil }
        self.host = host
    }

    private static func decoded(_ text: Substring) -> String? {
        try? FormURLEncoded.percentDecoded(Array(text.utf8)[...], plusIsSpace: false)
    }

    /// The request for a tunnel to a host.
    func request(for host: Host) -> [UInt8] {
        let authorization = authorization.map { "Proxy-Authorization: \($0)\r\n" } ?? ""
        return Array("CONNECT \(host) HTTP/1.1\r\nHost: \(host)\r\n\(authorization)\r\n".utf8)
    }

    /// The proxy's address without the credentials.
    package var description: String { "http://\(host)" }
}
