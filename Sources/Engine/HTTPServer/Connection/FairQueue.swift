import DequeModule
import Net

/// Elements that wait for their turn, by network. Networks take turns, each until it has used its share of the time, so
/// that one with many or expensive elements holds no other back. The IPv6 networks of a site, of which one line may have
/// many, share one turn, in which each comes with one element after the other.
///
/// A network that comes anew does not wait for a round: it comes before those that have had a turn. So one that comes seldom, as Kakao
/// with a new connection, hardly waits. It is not new again until its next turn in the round would have come, so that others are
/// served, too.
///
/// (Deficit round robin: Shreedhar and Varghese, "Efficient Fair Queuing", 1995. New networks first: RFC 8290 §4.2.)
struct FairQueue<Element> {
    /// The time that a network may use in a round.
    static var share: Duration { .milliseconds(1) }

    /// The elements of an IPv4 address or of an IPv6 site.
    private struct Line {
        var elements: [SocketAddress.Network: Deque<Element>] = [:]
        /// The networks of ``elements``, the next one first.
        var order: Deque<SocketAddress.Network> = []
        /// The time that the line may still use in this round; negative after it has used more.
        var timeLeft = share

        mutating func append(_ element: Element, of network: SocketAddress.Network) {
            if elements[network] == nil { order.append(network) }
            elements[network, default: []].append(element)
        }

        mutating func popFirst() -> (element: Element, network: SocketAddress.Network)? {
            guard let network = order.popFirst(), let element = elements[network]?.popFirst() else { return nil }
            if elements[network]?.isEmpty == true {
                elements[network] = nil
            } else {
                order.append(network)
            }
            return (element, network)
        }
    }

    private var lines: [SocketAddress.Network: Line] = [:]
    /// The keys of the lines that have had no turn.
    private var new: Deque<SocketAddress.Network> = []
    /// The keys of the others, the next one first.
    private var order: Deque<SocketAddress.Network> = []
    /// The number of elements.
    private(set) var count = 0

    var isEmpty: Bool { count == 0 }

    /// The key of a network's line.
    private static func line(of network: SocketAddress.Network) -> SocketAddress.Network { network.site ?? network }

    mutating func append(_ element: Element, of network: SocketAddress.Network) {
        let key = Self.line(of: network)
        if lines[key] == nil { new.append(key) }
        lines[key, default: Line()].append(element, of: network)
        count += 1
    }

    /// Removes the element whose turn it is. Call ``charge(_:to:)`` with the time that it took, if any.
    mutating func popNext() -> (element: Element, network: SocketAddress.Network)? {
        while count > 0, let key = new.first ?? order.first {
            let isNew = !new.isEmpty
            let timeLeft = lines[key]?.timeLeft ?? .zero
            if timeLeft > .zero, let next = lines[key]?.popFirst() {
                count -= 1
                return next
            }
            if isNew { new.removeFirst() } else { order.removeFirst() }
            if timeLeft > .zero, !isNew {
                // It has nothing left.
                lines[key] = nil
            } else {
                if timeLeft <= .zero { lines[key]?.timeLeft += Self.share }
                order.append(key)
            }
        }
        return nil
    }

    /// Subtracts the processor time that an element took from the share of its network. What a network owes is forgiven when
    /// nothing waits.
    mutating func charge(_ time: Duration, to network: SocketAddress.Network) {
        lines[Self.line(of: network)]?.timeLeft -= time
        guard isEmpty else { return }
        lines = [:]
        new = []
        order = []
    }
}
