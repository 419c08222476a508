package import HTTPTypes

extension HTTPField.Name {
    /// Where a request came from, as each proxy on its way saw it: the last one wrote the last address.
    package static let forwardedFor = unvalidated("X-Forwarded-For")
}

/// The proxies in front of a server, whose word on where a request comes from is taken.
///
/// Whoever else sends `X-Forwarded-For` may write into it what it likes.
///
/// A class, so that handing it on costs one reference count.
package final class TrustedProxies: Sendable {
    /// None.
    package static let none = TrustedProxies([])

    private let blocks: [AddressBlock]

    private init(_ blocks: [AddressBlock]) {
        self.blocks = blocks
    }

    /// Reads a list: `127.0.0.1, 10.0.0.0/8, 2001:db8::/32`; `nil` if one of them is no address and no network.
    package convenience init?(_ text: String) {
        var blocks: [AddressBlock] = []
        for part in text.split(separator: ",", omittingEmptySubsequences: false) {
            guard let block = AddressBlock(part.trimmingSpaces()) else { return nil }
            blocks.append(block)
        }
        self.init(blocks)
    }

    func contains(_ address: SocketAddress) -> Bool {
        blocks.contains { $0.contains(address) }
    }

    /// Where a request comes from that one of these proxies has passed on.
    ///
    /// - Parameters:
    ///   - forwardedFor: The value of `X-Forwarded-For`. It is read from its end, as far as it was written by these proxies.
    ///   - proxy: The other end of the connection.
    /// - Returns: The last address that is none of these proxies, without a port; the first one, if all are. The proxy's own when there
    ///   is no address where one should be.
    func client(_ forwardedFor: String?, through proxy: SocketAddress) -> SocketAddress {
        guard var rest = forwardedFor?[...] else { return proxy }
        while true {
            let comma = rest.lastIndex(of: ",")
            let entry = comma.map { rest[rest.index(after: $0)...] } ?? rest
            guard let address = SocketAddress(entry.trimmingSpaces()) else { return proxy }
            guard contains(address), let comma else { return address }
            rest = rest[..<comma]
        }
    }
}
