import EventLoop
import Net
import Testing

/// Tests of what an address is for.
@Suite struct SocketAddressTests {
    @Test("Wildcard and loopback addresses are recognized in both families, and no others")
    func kinds() throws {
        for (text, isWildcard, isLoopback) in [
            ("0.0.0.0", true, false), ("::", true, false), ("127.0.0.1", false, true), ("127.1.2.3", false, true),
            ("::1", false, true), ("128.0.0.1", false, false), ("::2", false, false), ("192.168.0.10", false, false),
            ("fe80::1", false, false), ("::ffff:127.0.0.1", false, true),
        ] {
            let address = try #require(SocketAddress(text))
            #expect(address.isWildcard == isWildcard, "\(text)")
            #expect(address.isLoopback == isLoopback, "\(text)")
        }
    }

    @Test("This machine's address in its network is one on which it can listen")
    func machine() throws {
        // A machine without a network has none.
        guard let address = SocketAddress.ofThisMachine() else { return }
        #expect(!address.isWildcard && !address.isLoopback && address.port == 0)
        let listener = try FileDescriptor.listening(on: address.host, port: 0)
        let port = try listener.boundPort()
        #expect(port > 0)
    }
}
