import DequeModule
import Net

/// Elements that wait for their turn, by network. Networks take turns, each until it has used its share of the time, so
/// that one with many or expensive elements holds no other back.
///
/// (Deficit round robin: Shreedhar and Varghese, "Efficient Fair Queuing", 1995.)
struct FairQueue<Element> {
    /// The time that a network may use in a round.
    static var share: Duration { .milliseconds(1) }
    /// The most time that one element counts. A process that is stopped meanwhile used none of it.
    private static var maximumCost: Duration { .milliseconds(20) }

    private struct Line {
        var elements: Deque<Element> = []
        /// The time that the network may still use in this round; negative after it has used more.
        var timeLeft = share
    }

    private var lines: [SocketAddress.Network: Line] = [:]
    /// The networks of ``lines``, the next one first.
    private var order: Deque<SocketAddress.Network> = []
    /// The number of elements.
    private(set) var count = 0

    var isEmpty: Bool { count == 0 }

    mutating func append(_ element: Element, of network: SocketAddress.Network) {
        if lines[network] == nil { order.append(network) }
        lines[network, default: Line()].elements.append(element)
        count += 1
    }

    /// Removes the element whose turn it is. Call ``charge(_:to:)`` with the time that it took.
    mutating func popNext() -> (element: Element, network: SocketAddress.Network)? {
        while count > 0, let network = order.first {
            guard let timeLeft = lines[network]?.timeLeft, timeLeft > .zero else {
                // The next network's turn.
                lines[network]?.timeLeft += Self.share
                order.append(order.removeFirst())
                continue
            }
            if let element = lines[network]?.elements.popFirst() {
                count -= 1
                return (element, network)
            }
            lines[network] = nil
            order.removeFirst()
        }
        return nil
    }

    /// Subtracts the time that an element took from the share of its network. What a network owes is forgiven when
    /// nothing waits.
    mutating func charge(_ time: Duration, to network: SocketAddress.Network) {
        lines[network]?.timeLeft -= min(time, Self.maximumCost)
        guard isEmpty else { return }
        lines = [:]
        order = []
    }
}
