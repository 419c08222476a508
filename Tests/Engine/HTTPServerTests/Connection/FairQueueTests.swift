import Net
import Testing

@testable import HTTPServer

@Suite("Fair queue")
struct FairQueueTests {
    private static func network(_ number: Int) throws -> SocketAddress.Network {
        try #require(SocketAddress("192.0.2.\(number)")).network
    }

    /// Removes all elements, each of which takes its time.
    private static func drain(_ queue: inout FairQueue<String>, _ cost: (String) -> Duration) -> String {
        var order: [String] = []
        while let (element, network) = queue.popNext() {
            order.append(element)
            queue.charge(cost(element), to: network)
        }
        return order.joined(separator: " ")
    }

    @Test("Elements of one network keep their order")
    func order() throws {
        var queue = FairQueue<String>()
        for name in ["a1", "a2", "a3"] { queue.append(name, of: try Self.network(1)) }
        #expect(queue.count == 3)
        #expect(Self.drain(&queue) { _ in .milliseconds(5) } == "a1 a2 a3")
        #expect(queue.isEmpty)
        #expect(queue.popNext() == nil)
    }

    @Test("Networks take turns, however many elements one has")
    func turns() throws {
        var queue = FairQueue<String>()
        for name in ["a1", "a2", "a3", "a4"] { queue.append(name, of: try Self.network(1)) }
        for name in ["b1", "b2"] { queue.append(name, of: try Self.network(2)) }
        #expect(Self.drain(&queue) { _ in .milliseconds(1) } == "a1 b1 a2 b2 a3 a4")
    }

    @Test("A network gets as much time as another, not as many elements")
    func time() throws {
        var queue = FairQueue<String>()
        for name in ["a1", "a2"] { queue.append(name, of: try Self.network(1)) }
        for name in ["b1", "b2", "b3", "b4", "b5", "b6"] { queue.append(name, of: try Self.network(2)) }
        let order = Self.drain(&queue) { $0.hasPrefix("a") ? .milliseconds(4) : .milliseconds(1) }
        #expect(order == "a1 b1 b2 b3 b4 a2 b5 b6")
    }

    @Test("Cheap elements of a network share its turn")
    func share() throws {
        var queue = FairQueue<String>()
        for name in ["a1", "a2", "a3"] { queue.append(name, of: try Self.network(1)) }
        queue.append("b1", of: try Self.network(2))
        #expect(Self.drain(&queue) { _ in .microseconds(400) } == "a1 a2 a3 b1")
    }

    @Test("The networks of an IPv6 site share its turn, one element of each after the other")
    func sites() throws {
        func network(_ address: String) throws -> SocketAddress.Network { try #require(SocketAddress(address)).network }
        var queue = FairQueue<String>()
        for name in ["a1", "a2", "a3"] { queue.append(name, of: try network("2001:db8:1:1::1")) }
        queue.append("b1", of: try network("2001:db8:1:2::1"))
        for name in ["c1", "c2"] { queue.append(name, of: try network("2001:db8:2:1::1")) }
        #expect(Self.drain(&queue) { _ in .milliseconds(1) } == "a1 c1 b1 c2 a2 a3")
    }

    @Test("A network that comes back after each element has still used its time; it owes nothing when nothing waits")
    func debt() throws {
        var queue = FairQueue<String>()
        let (a, b) = (try Self.network(1), try Self.network(2))
        queue.append("a1", of: a)
        for name in ["b1", "b2", "b3"] { queue.append(name, of: b) }
        var order: [String] = []
        while let (element, network) = queue.popNext() {
            order.append(element)
            queue.charge(network == a ? .milliseconds(3) : .milliseconds(1), to: network)
            if element == "a1" { queue.append("a2", of: a) }
        }
        #expect(order == ["a1", "b1", "b2", "b3", "a2"])
        queue.append("a3", of: a)
        queue.append("b4", of: b)
        #expect(queue.popNext()?.element == "a3")
    }

    @Test("A new network comes before those that have had a turn, but not again before they have had another")
    func new() throws {
        var queue = FairQueue<String>()
        let (a, b, c) = (try Self.network(1), try Self.network(2), try Self.network(3))
        for name in ["a1", "a2", "a3"] { queue.append(name, of: a) }
        for name in ["b1", "b2", "b3"] { queue.append(name, of: b) }
        var order: [String] = []
        while let (element, network) = queue.popNext() {
            order.append(element)
            queue.charge(network == c ? .microseconds(10) : .milliseconds(1), to: network)
            if element == "b1" { queue.append("c1", of: c) }
            if element == "a2" { queue.append("c2", of: c) }
        }
        #expect(order == ["a1", "b1", "c1", "a2", "b2", "c2", "a3", "b3"])
    }
}
