/// The division of a server's connections among its loops.
///
/// As long as they suffice, each loop has a connection for reads and two for writes. With fewer, it has one for writes; with
/// fewer still, loops share those of others. Transactions of all loops share the rest.
package struct ConnectionPlan: Sendable, Equatable {
    /// The connections besides those of the pools: the listener's.
    private static let listeners = 1
    /// The connections of transactions that are spared for before loops get more of their own.
    private static let spared = 4
    /// The fewest connections of transactions: the migrator uses two.
    private static let fewestExclusive = 2
    /// The fewest connections with which a server works.
    package static let minimum = listeners + 2 + fewestExclusive
    /// The maximum unless a setting says otherwise. Three servers, or two during an update, fit into the 97 places that
    /// PostgreSQL has by default.
    package static let defaultMaximum = 30

    /// The number of pools, each on another loop.
    package let pools: Int
    /// The number of connections for writes of each pool. Each has one for reads.
    package let writeConnections: Int
    /// The number of connections for transactions of all pools.
    package let exclusiveConnections: Int

    /// The maximum number of connections of the server.
    package var total: Int { Self.listeners + shared + exclusiveConnections }
    /// The number of connections that the server holds while it is idle.
    package var held: Int { Self.listeners + shared }
    /// The maximum number of connections to a replica: one of each pool, and those of dry runs, which the pools share.
    package var replicaConnections: Int { pools + Self.exclusiveReplicaConnections }
    package static let exclusiveReplicaConnections = 4
    private var shared: Int { pools * (1 + writeConnections) }

    /// - Parameters:
    ///   - loops: The number of loops.
    ///   - maximum: The maximum number of connections, at least ``minimum``.
    package init(loops: Int, maximum: Int = defaultMaximum) {
        let left = maximum - Self.listeners - Self.spared
        writeConnections = loops * 3 <= left ? 2 : 1
        pools = min(loops, max(1, left / (1 + writeConnections)))
        let rest = maximum - Self.listeners - pools * (1 + writeConnections)
        exclusiveConnections = max(Self.fewestExclusive, min(rest, loops * PostgresSettings.exclusivePerLoop))
    }
}
