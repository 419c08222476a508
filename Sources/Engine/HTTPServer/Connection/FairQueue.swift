import DequeModule
import Net

/// Elements that wait for their turn, by network. Networks take turns, each until it has used its share of the time, so
/// that one with many or expensive elements holds no other back. The IPv6 networks of a site, of which one line may have
/// many, share one turn, in which each comes with one element after the other.
///
/// (Deficit round robin: Shreedhar and Varghese, "Efficient Fair Queuing", 1995.)
struct FairQueue<Element> {
    /// The time that a network may use in a round.
    static var share: Duration { .milliseconds(1) }
    /// The most time that one element counts. A process that is stopped meanwhile used none of it.
    private static var maximumCost: Duration { .milliseconds(20) }

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
    /// The keys of ``lines``, the next one first.
    private var order: Deque<SocketAddress.Network> = []
    /// The number of elements.
    private(set) var count = 0

    var isEmpty: Bool { count == 0 }

    /// The key of a network's line.
    private static func line(of network: SocketAddress.Network) -> SocketAddress.Network { network.site ?? network }

    mutating func append(_ element: Element, of network: SocketAddress.Network) {
        let key = Self.line(of: network)
        if lines[key] == nil { order.append(key) }
        lines[key, default: Line()].append(element, of: network)
        count += 1
    }

    /// Removes the element whose turn it is. Call ``charge(_:to:)`` with the time that it took, if any.
    mutating func popNext() -> (element: Element, network: SocketAddress.Network)? {
        while count > 0, let key = order.first {
            guard let timeLeft = lines[key]?.timeLeft, timeLeft > .zero else {
                // The next line's turn.
                lines[key]?.timeLeft += Self.share
                order.append(order.removeFirst())
                continue
            }
            if let next = lines[key]?.popFirst() {
                count -= 1
                return next
            }
            lines[key] = nil
            order.removeFirst()
        }
        return nil
    }

    /// Subtracts the time that an element took from the share of its network. What a network owes is forgiven when
    /// nothing waits.
    mutating func charge(_ time: Duration, to network: SocketAddress.Network) {
        lines[Self.line(of: network)]?.timeLeft -= min(time, Self.maximumCost)
        guard isEmpty else { return }
        lines = [:]
        order = []
    }
}
