import CLinux
import EventLoop
import Glibc
import TestSupport
import Testing

@testable import Net

/// Connecting to the first address that answers (RFC 8305).
@Suite(.timeLimit(.minutes(1))) struct DialerTests {
    /// Connects, and returns the port of the connection's peer, or `nil` and the reason of the last failure.
    private func dial(_ addresses: [SocketAddress]) async throws -> (port: Int?, code: Int32) {
        let group = try EventLoopGroup(count: 1)
        defer { group.shutdown() }
        let loop = group.loops[0]
        return await withCheckedContinuation { continuation in
            loop.execute {
                let dialer = Dialer(to: addresses, loop: loop) { descriptor, failure in
                    guard let descriptor else { return continuation.resume(returning: (nil, failure.code)) }
                    continuation.resume(returning: (peer(of: descriptor.rawValue), failure.code))
                }
                dialer.start()
            }
        }
    }

    private func address(_ host: String, _ port: UInt16) throws -> SocketAddress {
        try #require(SocketAddress(host)).with(port: port)
    }

    @Test("The families alternate, beginning with that of the first address")
    func alternation() throws {
        let (v4, v6) = (["10.0.0.1", "10.0.0.2", "10.0.0.3"], ["::1", "::2"])
        let addresses = try (v6 + v4).map { try address($0, 1) }
        let order = Dialer.alternating(addresses).map(\.isV6)
        #expect(order == [true, false, true, false, false])
        #expect(Dialer.alternating(addresses.reversed()).map(\.isV6) == [false, true, false, true, false])
        #expect(Dialer.alternating([]).isEmpty)
    }

    @Test("An address of a dead family is passed over at once")
    func refused() async throws {
        let (listener, port) = try LoopbackSocket.listen()
        defer { close(listener) }
        // The listener has no IPv6 address.
        let result = try await dial([address("::1", port), address("127.0.0.1", port)])
        #expect(result.port == Int(port))
    }

    @Test("While an address does not answer, the next one is tried")
    func silent() async throws {
        let silent = try SilentListener()
        let (listener, port) = try LoopbackSocket.listen()
        defer { close(listener) }
        let result = try await dial([address("127.0.0.1", silent.port), address("127.0.0.1", port)])
        #expect(result.port == Int(port))
    }

    @Test("If no address can be reached, the reason is that of the last one")
    func unreachable() async throws {
        let (listener, port) = try LoopbackSocket.listen()
        close(listener)
        let result = try await dial([address("127.0.0.1", port), address("::1", port)])
        #expect(result.port == nil)
        #expect(result.code == ECONNREFUSED)
        #expect(try await dial([]).port == nil)
    }

    @Test("A cancelled attempt closes its sockets and has no outcome")
    func cancelled() async throws {
        let silent = try SilentListener()
        let address = try address("127.0.0.1", silent.port)
        let group = try EventLoopGroup(count: 1)
        defer { group.shutdown() }
        let loop = group.loops[0]
        await withCheckedContinuation { continuation in
            loop.execute {
                let dialer = Dialer(to: [address], loop: loop) { _, _ in Issue.record("an outcome") }
                dialer.start()
                dialer.cancel()
                dialer.cancel()
                continuation.resume()
            }
        }
    }
}

/// Returns the port of a socket's peer.
private func peer(of descriptor: Int32) -> Int {
    var storage = sockaddr_storage()
    var length = socklen_t(MemoryLayout<sockaddr_storage>.size)
    withUnsafeMutablePointer(to: &storage) { storage in
        _ = storage.withMemoryRebound(to: sockaddr.self, capacity: 1) { getpeername(descriptor, $0, &length) }
    }
    return SocketAddress(storage).port
}
