internal import EventLoop
internal import Glibc

/// One end of a proxied connection: reads what comes, and keeps what the peer does not take yet.
final class ProxyStream {
    // Touched on its loop only, as the connection that owns it.

    private let loop: EventLoop
    private let descriptor: FileDescriptor
    private var registration: Registration?
    private var output: [UInt8] = []
    private var isPaused = false
    private var endsAfterOutput = false

    /// Gets the bytes that come; empty for the end.
    var onInput: ((UnsafeRawBufferPointer) -> Void)?

    init(_ descriptor: consuming FileDescriptor, loop: EventLoop) {
        self.loop = loop
        self.descriptor = descriptor
    }

    func start() throws {
        registration = try loop.register(descriptor.rawValue, interest: interest) { [weak self] readiness in
            self?.ready(readiness)
        }
    }

    /// Sends bytes, now or when the peer takes them.
    func send(_ bytes: some Sequence<UInt8>) {
        guard registration != nil else { return }
        output.append(contentsOf: bytes)
        flush()
    }

    /// Stops or resumes both directions.
    func setPaused(_ isPaused: Bool) {
        self.isPaused = isPaused
        updateInterest()
        if !isPaused { flush() }
    }

    /// Closes it once everything is sent.
    func closeAfterOutput() {
        endsAfterOutput = true
        flush()
    }

    /// Closes it at once.
    func close(byReset isReset: Bool = false) {
        guard let registration else { return }
        loop.deregister(registration)
        self.registration = nil
        onInput = nil
        output = []
        // The descriptor itself is closed with this object, which its connection lets go of.
        if isReset { Socket.resetOnClose(descriptor.rawValue) }
    }

    private var interest: Interest {
        isPaused ? [] : Interest(reading: true, writing: !output.isEmpty)
    }

    private func updateInterest() {
        if let registration { loop.setInterest(interest, of: registration) }
    }

    private func ready(_ readiness: Readiness) {
        if readiness.contains(.write) { flush() }
        guard readiness.concernsInput, !isPaused, registration != nil else { return }
        let count = read(descriptor.rawValue, loop.scratch.baseAddress, loop.scratch.count)
        if count < 0, errno == EAGAIN || errno == EINTR { return }
        onInput?(UnsafeRawBufferPointer(rebasing: loop.scratch[..<max(0, count)]))
    }

    private func flush() {
        guard !isPaused, registration != nil else { return }
        var sent = 0
        while sent < output.count {
            let count = output.withUnsafeBytes {
                let start = $0.baseAddress?.advanced(by: sent)
                return Glibc.send(descriptor.rawValue, start, $0.count - sent, Int32(MSG_NOSIGNAL))
            }
            // An error is found by the next read.
            guard count > 0 else { break }
            sent += count
        }
        output.removeFirst(sent)
        if output.isEmpty, endsAfterOutput { return close() }
        updateInterest()
    }
}
