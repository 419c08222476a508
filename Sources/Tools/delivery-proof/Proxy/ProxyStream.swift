import EventLoop
import Glibc
import Net

/// One end of a proxied connection, which reads input and buffers unsent output.
final class ProxyStream {
    // Used only on its loop, like the connection that owns it.

    private let loop: EventLoop
    private let descriptor: FileDescriptor
    private var registration: Registration?
    private var output = OutputBuffer()
    private var isPaused = false
    private var endsAfterOutput = false

    /// Called with the received bytes; empty at the end of the input.
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

    /// Sends bytes, or buffers them until the socket is writable.
    func send(_ bytes: some Sequence<UInt8>) {
        guard registration != nil else { return }
        output.bytes.append(contentsOf: bytes)
        flush()
    }

    /// Stops or resumes both directions.
    func setPaused(_ isPaused: Bool) {
        self.isPaused = isPaused
        updateInterest()
        if !isPaused { flush() }
    }

    /// Closes the connection once all output is sent.
    func closeAfterOutput() {
        endsAfterOutput = true
        flush()
    }

    /// Closes the connection at once.
    func close(byReset isReset: Bool = false) {
        guard let registration else { return }
        loop.deregister(registration)
        self.registration = nil
        onInput = nil
        output = OutputBuffer()
        // The descriptor itself is closed when the owning connection releases this object.
        if isReset { descriptor.resetOnClose() }
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
        // The next read reports an error.
        _ = output.send(to: descriptor.rawValue)
        if output.isEmpty, endsAfterOutput { return close() }
        updateInterest()
    }
}
