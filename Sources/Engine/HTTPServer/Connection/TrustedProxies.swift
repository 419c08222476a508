package import HTTPTypes
import Net

extension HTTPField.Name {
    /// The addresses that a request passed through, as seen by each proxy. The last proxy appended the last address.
    package static let forwardedFor = unvalidated("X-Forwarded-For")
}

/// The proxies in front of a server that are trusted to report the client's address.
///
/// Any other peer may write arbitrary addresses into `X-Forwarded-For`.
///
/// A class, so that passing it on costs one reference count.
package final class TrustedProxies: Sendable, Equatable {
    /// An empty list.
    package static let none = TrustedProxies([])

    private let blocks: [AddressBlock]

    private init(_ blocks: [AddressBlock]) {
        self.blocks = blocks
    }

    /// Parses a list such as `127.0.0.1, 10.0.0.0/8, 2001:db8::/32`. Returns `nil` if an entry is not an address or
    /// network.
    package convenience init?(_ text: String) {
        var blocks: [AddressBlock] = []
        for part in text.split(separator: ",", omittingEmptySubsequences: false) {
            guard let block = AddressBlock(part.trimmingSpaces()) else { return nil }
            blocks.append(block)
        }
        self.init(blocks)
    }

    package static func == (left: TrustedProxies, right: TrustedProxies) -> Bool { left.blocks == right.blocks }

    func contains(_ address: SocketAddress) -> Bool {
        blocks.contains { $0.contains(address) }
    }

    /// Returns the address of the client whose request was forwarded by one of these proxies.
    ///
    /// - Parameters:
    ///   - forwardedFor: The value of `X-Forwarded-For`. It is read from the end, as far as these proxies wrote it.
    ///   - proxy: The peer of the connection.
    /// - Returns: The last address that is not one of these proxies, without a port, or the first address if all are.
    ///   The proxy's own address if an entry is not a valid address.
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
