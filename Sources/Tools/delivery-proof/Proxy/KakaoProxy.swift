import EventLoop
import Locking
import Net

/// A proxy between the servers under test and Kakao that counts the sends and cuts one of them.
final class KakaoProxy: @unchecked Sendable {
    // `shared` is protected by its lock. All other state is used only on the loop, which every method checks or enters.

    /// The state that the driver sets and reads.
    private struct Shared {
        var sends = 0
        var armed: ArmedFault?
        var isHit = false
    }

    let loop: EventLoop
    /// The port of the sandbox.
    private let upstream: Int
    private let listener: ProxyListener
    private let shared = Locked(Shared())
    private var connections: [ObjectIdentifier: KakaoConnection] = [:]

    /// - Parameter upstream: The port of the sandbox.
    init(loop: EventLoop, upstream: Int) throws {
        self.loop = loop
        self.upstream = upstream
        listener = try ProxyListener(loop: loop)
    }

    var port: Int { listener.port }

    /// Begins to accept connections.
    func start() {
        loop.execute {
            self.listener.start { [weak self] in self?.accept($0) }
        }
    }

    /// Stops accepting connections and closes the existing ones.
    func shutdown() {
        loop.execute {
            self.listener.stop()
            for connection in self.connections.values { connection.close() }
        }
    }

    // MARK: The driver's side

    /// Starts a run: resets the count and arms the fault, if it is one of Kakao's side.
    func startRun(_ armed: ArmedFault?) {
        shared.withLock { $0 = Shared(armed: armed) }
    }

    /// The number of sends since the run began.
    var sends: Int { shared.withLock { $0.sends } }

    /// Whether the fault has struck.
    var isHit: Bool { shared.withLock { $0.isHit } }

    // MARK: The connections' side

    func remove(_ connection: KakaoConnection) {
        connections[ObjectIdentifier(connection)] = nil
    }

    /// Counts a request. Returns the fault that strikes at it.
    func observe(_ head: RequestHead) -> ProxyFault? {
        loop.preconditionOnLoop()
        guard head.path == "/v1/push/send" else { return nil }
        return shared.withLock { shared in
            shared.sends += 1
            guard let armed = shared.armed, armed.point.occurrence == shared.sends else { return nil }
            shared.isHit = true
            return armed.fault
        }
    }

    private func accept(_ client: consuming FileDescriptor) {
        guard let kakao = Socket.connect(port: upstream),
            let connection = try? KakaoConnection(client, kakao, proxy: self)
        else { return }
        connections[ObjectIdentifier(connection)] = connection
    }
}

/// A connection from a server under test, and the corresponding connection to the sandbox. Requests follow one another.
final class KakaoConnection {
    // Used only on the proxy's loop.

    private unowned let proxy: KakaoProxy
    private let client: ProxyStream
    private let kakao: ProxyStream
    /// The received part of a request, whose head is incomplete or which has to be cut.
    private var request: [UInt8] = []
    /// The number of bytes of the current request that are still to be forwarded.
    private var bytesLeft = 0
    /// The fault that strikes at the current request, and the length of its head and of its body.
    private var fault: (fault: ProxyFault, head: Int, body: Int)?
    /// The response to the current request, if it is withheld.
    private var response = ResponseParser(endsAfterHead: false, maximumBodyBytes: .max)
    private var withheld: [UInt8] = []

    init(_ client: consuming FileDescriptor, _ kakao: consuming FileDescriptor, proxy: KakaoProxy) throws {
        self.proxy = proxy
        self.client = ProxyStream(client, loop: proxy.loop)
        self.kakao = ProxyStream(kakao, loop: proxy.loop)
        self.client.onInput = { [unowned self] in self.clientSent($0) }
        self.kakao.onInput = { [unowned self] in self.kakaoSent($0) }
        try self.client.start()
        try self.kakao.start()
    }

    func close(byReset isReset: Bool = false) {
        client.close(byReset: isReset)
        closeKakao()
    }

    private func closeKakao() {
        kakao.close()
        // The streams are in the middle of handling input.
        proxy.loop.schedule(after: .zero) { [self] in proxy.remove(self) }
    }

    private func clientSent(_ bytes: UnsafeRawBufferPointer) {
        guard !bytes.isEmpty else { return close() }
        request.append(contentsOf: bytes)
        while !request.isEmpty {
            if fault != nil { return cut() }
            if bytesLeft == 0 {
                guard let head = readHead() else { return }
                fault = proxy.observe(head.head).map { ($0, head.length, head.bodyLength) }
                bytesLeft = head.length + head.bodyLength
                continue
            }
            let count = min(bytesLeft, request.count)
            kakao.send(request[..<count])
            request.removeFirst(count)
            bytesLeft -= count
        }
    }

    private func readHead() -> (head: RequestHead, length: Int, bodyLength: Int)? {
        var parser = RequestHeadParser(limits: HeadLimits())
        do {
            guard let (head, length) = try request.withUnsafeBytes({ try parser.parse($0) }) else { return nil }
            guard case .fixed(let bodyLength) = head.framing else { return nil }
            return (head, length, bodyLength)
        } catch {
            close()
            return nil
        }
    }

    /// Cuts the current request as soon as enough of it has arrived.
    private func cut() {
        guard let fault else { return }
        switch fault.fault.kind {
        case .requestBefore:
            close(byReset: true)
        case .requestInside:
            guard request.count >= fault.head + fault.body / 2 else { return }
            // Kakao gets half of the body, which it drops.
            kakao.send(request[..<(fault.head + fault.body / 2)])
            close(byReset: true)
        default:
            guard request.count >= fault.head + fault.body else { return }
            kakao.send(request)
            request = []
        }
    }

    private func kakaoSent(_ bytes: UnsafeRawBufferPointer) {
        guard !bytes.isEmpty else { return close() }
        guard let fault else { return client.send(bytes) }
        withheld.append(contentsOf: bytes)
        _ = response.receive(bytes)
        guard response.state == .complete else { return }
        if case .responseInside = fault.fault.kind {
            client.send(withheld[..<(withheld.count / 2)])
            // The client reads what it gets, and then the end of the connection.
            client.closeAfterOutput()
            closeKakao()
        } else {
            close(byReset: true)
        }
    }
}
