/// Where a database was reached last, and which of its addresses do not respond, as the connections of this process have
/// found out.
///
/// All connections with copies of the same ``PostgresSettings`` share it, so that one finds out for all of them that a
/// host hangs or that a standby was promoted. Pure: its owner provides the clock.
struct AddressPreferences {
    /// The time in milliseconds for which an address is avoided after it did not respond. Waiting for it takes seconds, in
    /// which the promotion of a standby at another address would not be noticed.
    static let avoidance: UInt64 = 15_000

    /// The address at which a connection was opened last.
    private var current: PostgresAddress?
    /// Whether the server there turned out to accept no changes.
    private var isCurrentReadOnly = false
    /// The addresses that do not respond, and the time at which one connection tries them again, in milliseconds.
    private var avoided: [PostgresAddress: UInt64] = [:]

    /// Returns the addresses that one round of attempts tries, in order: first the one at which the database was reached
    /// last, then those that follow it in the list. If changes failed there, it comes last. Addresses that do not respond
    /// are left out unless there are no others.
    mutating func round(of addresses: [PostgresAddress], at now: UInt64) -> [PostgresAddress] {
        // An address that a name no longer has would stay forever.
        avoided = avoided.filter { addresses.contains($0.key) }
        var ordered = addresses
        if let current, let index = addresses.firstIndex(of: current) {
            let first = isCurrentReadOnly ? index + 1 : index
            ordered = Array(addresses[first...] + addresses[..<first])
        }
        let usable = ordered.filter { avoided[$0] == nil }
        // The one that failed first comes first: the others have failed since.
        guard !usable.isEmpty else { return ordered.sorted { avoided[$0, default: 0] < avoided[$1, default: 0] } }
        let due = ordered.filter { avoided[$0].map { $0 <= now } ?? false }
        // Only this connection tries them, last.
        for address in due { avoided[address] = now + Self.avoidance }
        return usable + due
    }

    /// Whether the database was reached last at another address than the given one.
    func hasMoved(from address: PostgresAddress) -> Bool { current.map { $0 != address } ?? false }

    /// Whether the server at an address does not respond, and the database was reached at another one since.
    func isAbandoned(_ address: PostgresAddress) -> Bool { avoided[address] != nil && hasMoved(from: address) }

    /// Records that a connection was opened.
    mutating func reached(_ address: PostgresAddress) {
        (current, isCurrentReadOnly) = (address, false)
        avoided[address] = nil
    }

    /// Records that an attempt was rejected: the address responds.
    mutating func rejected(_ address: PostgresAddress) {
        avoided[address] = nil
    }

    /// Records that a server does not respond.
    mutating func isSilent(_ address: PostgresAddress, at now: UInt64) {
        avoided[address] = now + Self.avoidance
    }

    /// Records that a server does not respond to a statement. The next round tries it, last, since it may still accept
    /// connections: a commit waits as long as its synchronous standby is gone.
    mutating func isLate(_ address: PostgresAddress, at now: UInt64) {
        avoided[address] = avoided[address] ?? now
    }

    /// Records that the server of an open connection accepts no changes any more.
    mutating func isReadOnly(_ address: PostgresAddress) {
        if current == address { isCurrentReadOnly = true }
    }
}
