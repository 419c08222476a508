import EventLoop
import Glibc
import Testing

@testable import Net

/// A connected socket with TLS.
@Suite struct ChannelTests {
    @Test("What waits to be sent is dropped when the channel is closed, since it was reported as unsent")
    func unsent() throws {
        var numbers: [Int32] = [0, 0]
        let type = Int32(SOCK_STREAM.rawValue | SOCK_NONBLOCK.rawValue | SOCK_CLOEXEC.rawValue)
        try #require(socketpair(AF_UNIX, type, 0, &numbers) == 0)
        let peer = FileDescriptor(owning: numbers[1])
        let channel = Channel(FileDescriptor(owning: numbers[0]))
        try Self.encrypt(channel, peer.rawValue)

        // The peer reads nothing, and its system's buffers are full.
        let filler = [UInt8](repeating: 0, count: 4096)
        while send(channel.socket, filler, filler.count, 0) > 0 {}
        let sent = channel.write { $0 += Array("POST / HTTP/1.1".utf8) }
        #expect(sent)
        #expect(channel.flush().taken == 0)
        // Now there would be room.
        while !Self.receive(peer.rawValue).isEmpty {}
        channel.close()
        #expect(Self.receive(peer.rawValue).isEmpty)
    }

    /// Performs the TLS handshake of a channel with a server at the other end of its socket.
    private static func encrypt(_ channel: Channel, _ peer: Int32) throws {
        let own = try SelfSignedCertificate()
        let server = try TLSEngine(TLSContext(certificateChain: own.certificate, privateKey: own.privateKey))
        let client = try TLSEngine(TLSContext(trusting: nil), connectingTo: "localhost", resuming: nil)
        channel.encrypt(client)
        let scratch = UnsafeMutableRawBufferPointer.allocate(byteCount: 64 * 1024, alignment: 16)
        defer { scratch.deallocate() }
        _ = channel.decrypt(client, scratch) { _ in false }
        while !server.isEstablished {
            _ = channel.flush()
            receive(peer).withUnsafeBytes { server.receive($0) }
            guard case .needsInput = server.read(into: scratch) else { break }
            var output: [UInt8] = []
            server.drain(into: &output)
            _ = send(peer, output, output.count, 0)
            _ = channel.read(into: scratch) { _ in false }
        }
        try #require(client.isEstablished && server.isEstablished)
    }

    /// Returns what has arrived at a socket.
    private static func receive(_ socket: Int32) -> [UInt8] {
        var bytes = [UInt8](repeating: 0, count: 256 * 1024)
        let count = recv(socket, &bytes, bytes.count, 0)
        return Array(bytes.prefix(max(0, count)))
    }
}
