import CLibssl
import Glibc
import Locking
import TestSupport

@testable import Net

/// A TLS server that is scripted message by message, with OpenSSL on blocking sockets. Each connection runs the test's
/// script on its own thread.
final class TLSScriptServer: Sendable {
    let port: UInt16
    /// The trust in the server's certificate, which is for `localhost`.
    let trust: TrustStore
    private let listener: Int32
    private let connections = Locked(0)

    /// Runs a server for the duration of `body`.
    static func run<Result>(
        _ script: @escaping @Sendable (TLSScriptConnection) -> Void,
        _ body: (TLSScriptServer) async throws -> Result
    ) async throws -> Result {
        let server = try TLSScriptServer(script)
        defer { shutdown(server.listener, Int32(SHUT_RDWR)) }
        return try await body(server)
    }

    private init(_ script: @escaping @Sendable (TLSScriptConnection) -> Void) throws {
        let own = try SelfSignedCertificate()
        let context = try TLSContext(certificateChain: own.certificate, privateKey: own.privateKey)
        trust = try TrustStore(file: writeFile(own.certificate, to: "\(TemporaryFolder.make())/certificate.pem"))
        (listener, port) = try LoopbackSocket.listen()
        startThread { [listener, connections] in
            while true {
                let number = accept(listener, nil, nil)
                guard number >= 0 else { break }
                let count = connections.withLock { count in
                    count += 1
                    return count
                }
                startThread {
                    if let connection = TLSScriptConnection(number, context, count) { script(connection) }
                    close(number)
                }
            }
            close(listener)
        }
    }

    var url: String { "https://localhost:\(port)/" }
    var connectionCount: Int { connections.withLock { $0 } }
}

/// The server's end of a TLS connection, with blocking calls.
final class TLSScriptConnection {
    /// The number of the connection on its server, starting at 1.
    let number: Int
    private let ssl: OpaquePointer

    fileprivate init?(_ descriptor: Int32, _ context: TLSContext, _ number: Int) {
        guard let ssl = SSL_new(context.pointer) else { return nil }
        self.ssl = ssl
        self.number = number
        SSL_set_fd(ssl, descriptor)
        guard SSL_accept(ssl) == 1 else { return nil }
    }

    deinit {
        SSL_free(ssl)
    }

    /// Whether the client has resumed an earlier session.
    var isResumed: Bool { SSL_session_reused(ssl) == 1 }

    /// Reads a request without a body. Returns whether there was one before the end of the connection.
    func readRequest() -> Bool {
        var received: [UInt8] = []
        var part = [UInt8](repeating: 0, count: 4096)
        while !received.suffix(4).elementsEqual("\r\n\r\n".utf8) {
            let count = SSL_read(ssl, &part, Int32(part.count))
            guard count > 0 else { return false }
            received += part[..<Int(count)]
        }
        return true
    }

    /// Reads a head byte by byte, and nothing of the body. Returns whether there was one before the end of the connection.
    func readHead() -> Bool {
        var head: [UInt8] = []
        var byte: [UInt8] = [0]
        while !head.suffix(4).elementsEqual("\r\n\r\n".utf8) {
            guard SSL_read(ssl, &byte, 1) == 1 else { return false }
            head += byte
        }
        return true
    }

    /// Waits until the client sends no more, because nothing is read.
    func waitUntilBlocked() {
        // Otherwise the kernel would take 32 MB.
        var size: Int32 = 64 * 1024
        setsockopt(SSL_get_fd(ssl), SOL_SOCKET, SO_RCVBUF, &size, socklen_t(MemoryLayout<Int32>.size))
        var (unread, quiet): (Int32, Int) = (-1, 0)
        while quiet < 100 {
            var count: Int32 = 0
            guard ioctl(SSL_get_fd(ssl), UInt(FIONREAD), &count) == 0 else { return }
            quiet = count == unread ? quiet + 1 : 0
            unread = count
            poll(nil, 0, 10)
        }
    }

    /// Reads at most a record. Returns the number of bytes, or `nil` at the end of the connection.
    func read() -> Int? {
        var part = [UInt8](repeating: 0, count: 16 * 1024)
        let count = Int(SSL_read(ssl, &part, Int32(part.count)))
        return count > 0 ? count : nil
    }

    func write(_ bytes: [UInt8]) {
        var rest = bytes[...]
        while !rest.isEmpty {
            let count = rest.withUnsafeBytes { SSL_write(ssl, $0.baseAddress, Int32(clamping: $0.count)) }
            guard count > 0 else { return }
            rest = rest.dropFirst(Int(count))
        }
    }

    func answer(_ body: String) {
        write(Array("HTTP/1.1 200 OK\r\nContent-Length: \(body.utf8.count)\r\n\r\n\(body)".utf8))
    }

    /// Sends a session ticket and a key update: messages of TLS itself.
    func sendMessagesOfTLS() {
        SSL_new_session_ticket(ssl)
        SSL_do_handshake(ssl)
        SSL_key_update(ssl, SSL_KEY_UPDATE_REQUESTED)
        SSL_do_handshake(ssl)
    }

    /// Announces the end of the connection (`close_notify`).
    func sayGoodbye() {
        SSL_shutdown(ssl)
    }

    /// Reads until the client closes.
    func waitForEnd() {
        var part = [UInt8](repeating: 0, count: 4096)
        while SSL_read(ssl, &part, Int32(part.count)) > 0 {}
    }
}
