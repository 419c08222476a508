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
    @Test("A few key updates are answered; a peer that makes more than any real one is cut off, without much work")
    func flood() async throws {
        let own = try SelfSignedCertificate()
        let context = try TLSContext(certificateChain: own.certificate, privateKey: own.privateKey)
        try await withServer(settings { $0.tls = context }) { server in
            let client = try KeyUpdater(port: server.port)
            #expect(await client.flood(16) == 16)
            try await server.waitUntilAllIsRead()
            #expect(await server.server.connections().open == 1)
            // As many as the kernel accepts before the connection is closed.
            _ = await client.flood(200_000)
            try await eventually("the connection is closed") { await server.server.connections().open == 0 }
        }
    }
}
