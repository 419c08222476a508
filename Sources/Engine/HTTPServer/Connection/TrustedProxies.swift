package import Net

/// The proxies in front of a server that are trusted to report the client's address in a ``ForwardedField``.
///
/// Any other peer may write arbitrary addresses into it.
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

    package func contains(_ address: SocketAddress) -> Bool {
        blocks.contains { $0.contains(address) }
    }

    /// Returns the address of the client whose request was forwarded by one of these proxies.
    ///
    /// - Parameters:
    ///   - value: The value of the field. It is read from the end, as far as these proxies wrote it.
    ///   - proxy: The peer of the connection.
    /// - Returns: The last address that is not one of these proxies, without a port, or the first address if all are.
    ///   The proxy's own address without a value. `nil` if an element before that has no readable address.
    func client(_ value: String?, in field: ForwardedField, through proxy: SocketAddress) -> SocketAddress? {
        var client = proxy
        for element in BackwardList((value ?? "")[...].utf8) {
            guard let node = field.node(in: element), let address = SocketAddress(node: node) else { return nil }
            client = address
            guard contains(address) else { break }
        }
        return client
    }
}
