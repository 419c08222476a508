import Crypto

/// The address of the endpoint: `https`, or `http` on this machine.
package struct WebhookURL: Sendable, Equatable {
    let text: String
    /// The address without its query, which may contain a secret.
    let shown: String

    /// Creates an address. Returns `nil` if it is invalid, has user information, or would send webhooks over a network in the clear.
    package init?(_ text: String) {
        // A backslash ends the authority for some parsers and not for others.
        guard text.utf8.allSatisfy({ $0 > 0x20 && $0 < 0x7F }), !text.contains("\\"),
            let scheme = ["https://", "http://"].first(where: { text.lowercased().hasPrefix($0) })
        else { return nil }
        let rest = text.dropFirst(scheme.count)
        let authority = rest.prefix { !"/?#".contains($0) }
        guard !authority.isEmpty, !authority.contains("@") else { return nil }
        guard scheme == "https://" || Self.isLoopback(authority.lowercased()) else { return nil }
        self.text = text
        shown = String(text.prefix { $0 != "?" && $0 != "#" })
    }

    /// The SHA-256 of the address.
    var digest: [UInt8] { SHA256Digest.of(text) }

    /// Returns whether a host, with a port or without, is this machine.
    private static func isLoopback(_ authority: String) -> Bool {
        if authority.hasPrefix("[") { return authority == "[::1]" || authority.hasPrefix("[::1]:") }
        let host = authority.prefix { $0 != ":" }
        if host == "localhost" { return true }
        let parts = host.split(separator: ".", omittingEmptySubsequences: false)
        return parts.count == 4 && parts[0] == "127" && parts.allSatisfy { UInt8($0) != nil }
    }
}
