import EventLoop
import Glibc
import Net

/// Establishes connections: looks up the host, connects, asks the proxy if there is one, and performs the TLS handshake.
final class Connector: @unchecked Sendable {
    // Confined to `loop`: created and used on it only.

    /// The reason why a connection could not be established.
    struct Failure: Error {
        let code: HTTPClientError.Code
        /// A message for people. It names hosts and certificates.
        let message: String
    }

    private enum Stage {
        /// The addresses of the host are looked up. Can transition to `dialing`.
        case resolving
        /// Can transition to `tunneling`, `encrypting`, `ended`.
        case dialing(Dialer)
        /// The proxy is asked to connect to the host. Can transition to `encrypting`, `ended`.
        case tunneling(ResponseParser)
        /// The TLS handshake is performed. Can transition to `ended`.
        case encrypting
        case ended
    }

    private let origin: Origin
    private let settings: HTTPClientSettings
    private let sessions: TLSSessions
    private let loop: EventLoop
    private var stage = Stage.resolving
    private var channel: Channel?
    private var registration: Registration?
    private var timer: TimerID?
    private var onEnd: ((Result<Channel, Failure>) -> Void)?

    /// - Parameter onEnd: Called once on the loop, not before ``start()`` has returned, unless ``cancel()`` was called.
    init(
        to origin: Origin,
        settings: HTTPClientSettings,
        sessions: TLSSessions,
        loop: EventLoop,
        onEnd: @escaping (Result<Channel, Failure>) -> Void
    ) {
        self.origin = origin
        self.settings = settings
        self.sessions = sessions
        self.loop = loop
        self.onEnd = onEnd
    }

    func start() {
        let limit = settings.connectTimeout
        timer = loop.schedule(after: limit) { [self] in
            let (code, delay) = delay
            fail(code, "\(delay) within \(limit.wholeMilliseconds) ms")
        }
        settings.resolver.addresses(of: target.name, on: loop) { [self] in resolved($0) }
    }

    /// Ends the attempt without an outcome.
    func cancel() {
        onEnd = nil
        releaseResources()
    }

    /// The host to which the socket is connected.
    private var target: Host { settings.proxy?.host ?? origin.host }

    /// The proxy, without its credentials, for messages.
    private var proxyText: String { settings.proxy.map { "the proxy \($0)" } ?? "no proxy" }

    /// What did not happen in time, and whose fault that is.
    private var delay: (HTTPClientError.Code, String) {
        switch (stage, settings.proxy) {
        case (.resolving, nil): (.timedOut, "its name was not resolved")
        case (.resolving, _?): (.proxy, "the name of \(proxyText) was not resolved")
        case (.dialing, nil): (.timedOut, "no connection was established")
        case (.dialing, _?), (.tunneling, _?): (.proxy, "\(proxyText) did not respond")
        case (.tunneling, nil), (.encrypting, _), (.ended, _): (.timedOut, "there was no TLS handshake")
        }
    }

    // MARK: Steps

    private func resolved(_ answer: NameResolver.Answer) {
        guard case .resolving = stage else { return }
        switch answer {
        case .failure(let failure):
            guard settings.proxy != nil else { return fail(.cannotResolve, "cannot resolve \(failure)") }
            fail(.proxy, "cannot resolve the name of \(proxyText): \(failure)")
        case .success(let addresses):
            let dialer = Dialer(to: addresses.map { $0.with(port: target.port) }, loop: loop) { [self] in dialed($0, $1)
            }
            stage = .dialing(dialer)
            dialer.start()
        }
    }

    private func dialed(_ descriptor: consuming FileDescriptor?, _ failure: SystemError) {
        guard let descriptor else {
            settings.resolver.invalidate(target.name)
            guard settings.proxy != nil else { return fail(.cannotConnect, "cannot connect: \(failure.reason)") }
            return fail(.proxy, "cannot connect to \(proxyText): \(failure.reason)")
        }
        let channel = Channel(descriptor)
        self.channel = channel
        do {
            registration = try loop.register(channel.socket, interest: .read) { [self] _ in advance() }
        } catch {
            return fail(.internalFailure, "\(error)")
        }
        if let proxy = settings.proxy {
            stage = .tunneling(ResponseParser(endsAfterHead: true, maximumBodyBytes: 0))
            _ = channel.write { $0 += proxy.request(for: origin.host) }
            advance()
        } else {
            encrypt()
        }
    }

    private func encrypt() {
        guard let channel, origin.isSecure else { return succeed() }
        do {
            let session = sessions[origin]
            channel.encrypt(
                try TLSEngine(try sessions.context(), connectingTo: origin.host.name, resuming: session)
            )
        } catch {
            return fail(.internalFailure, "\(error)")
        }
        stage = .encrypting
        advance()
    }

    /// Makes as much progress as the socket allows.
    private func advance() {
        guard let channel else { return }
        switch stage {
        case .tunneling(let parser): tunnel(channel, parser)
        case .encrypting: shakeHands(channel)
        case .resolving, .dialing, .ended: break
        }
    }

    private func tunnel(_ channel: Channel, _ parser: ResponseParser) {
        guard flush(channel) else { return fail(.proxy, "\(proxyText) closed the connection") }
        var parser = parser
        var hasMore = false
        let result = channel.read(into: loop.scratch) { bytes in
            hasMore = parser.receive(bytes) < bytes.count
            return parser.state == .head
        }
        switch parser.state {
        case .failed:
            fail(.proxy, "\(proxyText) does not speak HTTP")
        case .complete:
            let status = parser.head?.status ?? 0
            guard (200..<300).contains(status) else {
                let remedy = status == 407 ? "; correct the credentials in its URL" : ""
                return fail(.proxy, "\(proxyText) refuses to connect to \(origin.host), with status \(status)\(remedy)")
            }
            guard !hasMore else { return fail(.proxy, "\(proxyText) does not speak HTTP") }
            encrypt()
        case .head, .body, .bodyUntilEnd:
            guard case .again = result else { return fail(.proxy, "\(proxyText) closed the connection") }
            stage = .tunneling(parser)
        }
    }

    private func shakeHands(_ channel: Channel) {
        guard let tls = channel.tls else { return }
        var isTalkative = false
        let receive: (UnsafeRawBufferPointer) -> Bool = { _ in
            isTalkative = true
            return false
        }
        // The first call writes the client's first message.
        let result =
            tls.hasBegun
            ? channel.read(into: loop.scratch, receive) : channel.decrypt(tls, loop.scratch, receive) ?? .again
        if tls.isEstablished, !isTalkative, case .again = result {
            // The end of the handshake leaves together with the request.
            return succeed()
        }
        // Also an alert that says why the handshake has failed.
        let isAlive = flush(channel)
        guard !isTalkative else { return fail(.badResponse, "the host sent data unasked") }
        guard isAlive, case .again = result else {
            // Perhaps because of the session.
            sessions[origin] = nil
            return fail(.tls, tls.failure ?? "the host closed the connection during the TLS handshake")
        }
    }

    /// Sends as much as the socket accepts, and waits to send the rest. Returns whether the connection is alive.
    private func flush(_ channel: Channel) -> Bool {
        let result = channel.flush().result
        if case .failed = result { return false }
        if let registration {
            loop.setInterest(Interest(reading: true, writing: !channel.isFlushed), of: registration)
        }
        return true
    }

    // MARK: End

    private func succeed() {
        guard let channel else { return }
        self.channel = nil
        complete(with: .success(channel))
    }

    private func fail(_ code: HTTPClientError.Code, _ message: String) {
        complete(with: .failure(Failure(code: code, message: message)))
    }

    private func complete(with result: Result<Channel, Failure>) {
        releaseResources()
        guard let onEnd else { return }
        self.onEnd = nil
        onEnd(result)
    }

    private func releaseResources() {
        if case .dialing(let dialer) = stage { dialer.cancel() }
        stage = .ended
        loop.cancel(timer.take())
        loop.deregister(registration.take())
        channel?.close()
        channel = nil
    }
}

extension SystemError {
    /// The reason alone, such as `Connection refused`.
    fileprivate var reason: String { String(cString: strerror(code)) }
}
