import CLibssl
import Dispatch
import EventLoop
import Glibc
import Net
import TestSupport
import Testing

@testable import HTTPServer

/// A TLS 1.3 client on a blocking socket that requests key updates and does not read the responses.
private final class KeyUpdater: @unchecked Sendable {
    // Used only on `queue` after `init`.
    private let queue = DispatchQueue(label: "key-updater")
    private let descriptor: FileDescriptor
    private let context: OpaquePointer
    private let ssl: OpaquePointer

    init(port: Int) throws {
        let number = try LoopbackSocket.connect(to: UInt16(port)) { number in
            // The smallest receive buffer, and a send timeout for when the server does not read.
            var size: Int32 = 4096
            setsockopt(number, SOL_SOCKET, SO_RCVBUF, &size, socklen_t(MemoryLayout<Int32>.size))
            LoopbackSocket.setTimeout(seconds: 2, of: number, SO_SNDTIMEO)
        }
        descriptor = FileDescriptor(owning: number)
        guard let context = SSL_CTX_new(TLS_client_method()), let ssl = SSL_new(context) else {
            throw SystemError(call: "SSL_new")
        }
        self.context = context
        self.ssl = ssl
        SSL_set_fd(ssl, number)
        guard SSL_connect(ssl) == 1 else { throw SystemError(call: "SSL_connect") }
    }

    deinit {
        SSL_free(ssl)
        SSL_CTX_free(context)
    }

    /// Sends up to `count` requests for key updates, as many as the server accepts. Returns the number sent.
    func flood(_ count: Int) async -> Int {
        await withCheckedContinuation { continuation in
            queue.async { [self] in
                var sent = 0
                while sent < count, SSL_key_update(ssl, SSL_KEY_UPDATE_REQUESTED) == 1, SSL_do_handshake(ssl) == 1 {
                    sent += 1
                }
                continuation.resume(returning: sent)
            }
        }
    }
}

@Suite("Key updates", .timeLimit(.minutes(1))) struct KeyUpdateTests {
    /// Returns the number of bytes waiting to be written, over all connections of a server.
    private func unsent(_ server: HTTPServer) async -> Int {
        var count = 0
        for server in server.loopServers {
            count += await withCheckedContinuation { continuation in
                server.loop.execute {
                    continuation.resume(returning: server.connections.values.reduce(0) { $0 + $1.output.count })
                }
            }
        }
        return count
    }

    @Test("The output stays bounded if a peer requests key updates and does not read the responses")
    func flood() async throws {
        let own = try SelfSignedCertificate()
        let context = try TLSContext(certificateChain: own.certificate, privateKey: own.privateKey)
        try await withServer(settings { $0.tls = context }) { server in
            let client = try KeyUpdater(port: server.port)
            // Each gets a response of at least 22 bytes: more than 4 MiB in all.
            let sent = await client.flood(200_000)
            #expect(sent > 1000)
            // Input that the server has stopped reading stays in the kernel.
            var largest = 0
            for _ in 0..<50 {
                largest = max(largest, await unsent(server.server))
                if try ServerSocket.all(port: server.port).allSatisfy({ $0.unread == 0 }) { break }
                try await Task.sleep(for: .milliseconds(10))
            }
            largest = max(largest, await unsent(server.server))
            #expect(largest <= 256 * 1024)
        }
    }
}
