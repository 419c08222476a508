/// Requests that share a limit of connections to an origin: ``HTTPClientSettings/connectionLimits``. Those of one group
/// cannot take the connections of another.
package struct ConnectionGroup: Hashable, Sendable {
    package let number: UInt8

    package init(_ number: UInt8) {
        self.number = number
    }

    /// The group of requests that name none.
    package static let shared = ConnectionGroup(0)
}
