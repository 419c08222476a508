import EventLoop
import Glibc
import Testing

@Suite("Descriptors", .timeLimit(.minutes(1)))
struct RegistrationTests {
    @Test(
        "An event of a descriptor deregistered in the same tick reaches no handler, even if its number is reused"
    )
    func staleEvent() async throws {
        let one = try SocketPair()
        let other = try SocketPair()
        let idle = try SocketPair()
        let numbers = [one.near.rawValue, other.near.rawValue]
        let silent = idle.near.rawValue
        let journal = Journal<String>()
        try send(1, to: one.far.rawValue)
        try send(2, to: other.far.rawValue)

        let (arrivals, arrival) = AsyncStream.makeStream(of: UInt8?.self)
        try await withLoop { loop in
            // Both are ready before the loop waits, so that one tick reports both events. The handler that runs first
            // deregisters the other socket and gives its number to an idle socket.
            try await loop.run {
                let registrations = Registrations()
                for mine in 0...1 {
                    let registration = try loop.register(numbers[mine], interest: .read) { _ in
                        journal.note("first")
                        loop.deregister(registrations[mine])
                        loop.deregister(registrations[1 - mine])
                        dup2(silent, numbers[1 - mine])
                        let successor = try? loop.register(numbers[1 - mine], interest: .read) { _ in
                            journal.note("successor")
                            arrival.yield(receive(from: numbers[1 - mine]))
                            loop.deregister(registrations[2])
                        }
                        if let successor { registrations.append(successor) }
                    }
                    registrations.append(registration)
                }
            }
            try await loop.turn()
            #expect(journal.entries == ["first"])

            // The successor receives its own events.
            try send(3, to: idle.far.rawValue)
            #expect(try await first(of: arrivals) == 3)
            #expect(journal.entries == ["first", "successor"])
        }
    }

    @Test("A handler that deregisters itself is not called again, and its slot is reused for the next descriptor")
    func deregisterItself() async throws {
        let sockets = try SocketPair()
        let near = sockets.near.rawValue
        let journal = Journal<Int>()
        try send(1, to: sockets.far.rawValue)
        try await withLoop { loop in
            for turn in 0..<3 {
                try await loop.run {
                    let registrations = Registrations()
                    registrations.append(
                        try loop.register(near, interest: .read) { _ in
                            journal.note(turn)
                            loop.deregister(registrations[0])
                            loop.deregister(registrations[0])
                        }
                    )
                }
                // The byte is still unread: only deregistering has ended the events.
                try await loop.turn()
            }
            #expect(journal.entries == [0, 1, 2])
        }
    }

    @Test("A stale registration does not affect the new one in its slot")
    func staleRegistration() async throws {
        let sockets = try SocketPair()
        let near = sockets.near.rawValue
        let (events, event) = AsyncStream.makeStream(of: UInt8?.self)
        try await withLoop { loop in
            try await loop.run {
                let over = try loop.register(near, interest: .write) { _ in }
                loop.deregister(over)
                _ = try loop.register(near, interest: .read) { _ in event.yield(receive(from: near)) }
                loop.setInterest(.write, of: over)
                loop.deregister(over)
            }
            try send(9, to: sockets.far.rawValue)
            #expect(try await first(of: events) == 9)
        }
    }

    @Test("A descriptor is reported for as long as it is ready")
    func levelTriggered() async throws {
        let sockets = try SocketPair()
        let near = sockets.near.rawValue
        for byte in 1...3 as ClosedRange<UInt8> { try send(byte, to: sockets.far.rawValue) }
        let (bytes, byte) = AsyncStream.makeStream(of: UInt8?.self)
        try await withLoop { loop in
            try await loop.run {
                // Reads one byte per call.
                _ = try loop.register(near, interest: .read) { readiness in
                    if readiness.contains(.read) { byte.yield(receive(from: near)) }
                }
            }
            var iterator = bytes.makeAsyncIterator()
            for expected in 1...3 as ClosedRange<UInt8> { #expect(await iterator.next() == expected) }
        }
    }

    @Test("Only events of the current interest are reported, and the interest can be changed")
    func setInterest() async throws {
        let sockets = try SocketPair()
        let near = sockets.near.rawValue
        let far = sockets.far.rawValue
        let journal = Journal<Readiness>()
        let (events, event) = AsyncStream.makeStream(of: Readiness.self)
        try await withLoop { loop in
            let registration = try await loop.run {
                let registrations = Registrations()
                let registration = try loop.register(near, interest: .write) { readiness in
                    journal.note(readiness)
                    event.yield(readiness)
                    // One event per change of the interest.
                    loop.setInterest([], of: registrations[0])
                }
                registrations.append(registration)
                return registration
            }
            var iterator = events.makeAsyncIterator()
            #expect(await iterator.next() == .write)

            try send(1, to: far)
            try await loop.turn()
            #expect(journal.entries == [.write])

            try await loop.run { loop.setInterest(.read, of: registration) }
            #expect(await iterator.next() == .read)
            try await loop.run { loop.setInterest([.read, .write], of: registration) }
            #expect(await iterator.next() == [.read, .write])
            try await loop.run { loop.setInterest([.read, .write], of: registration) }
            #expect(await iterator.next() == [.read, .write])
            try await loop.run {
                _ = receive(from: near)
                loop.setInterest(.read, of: registration)
            }
            try await loop.turn()
            #expect(journal.entries.count == 4)
            try send(2, to: far)
            #expect(await iterator.next() == .read)
            // The original interest.
            try await loop.run { loop.setInterest(.write, of: registration) }
            #expect(await iterator.next() == .write)
        }
    }

    @Test("A closed peer is reported as a hang-up, regardless of the interest")
    func hangUp() async throws {
        let near = try orphan()
        let number = near.rawValue
        try await withLoop { loop in
            for interest in [[], .read, [.read, .write]] as [Interest] {
                let (events, event) = AsyncStream.makeStream(of: Readiness.self)
                let registration = try await loop.run {
                    try loop.register(number, interest: interest) { event.yield($0) }
                }
                let readiness = try await first(of: events)
                #expect(readiness.contains(.hangUp))
                #expect(readiness.contains(.read) == interest.contains(.read))
                try await loop.run { loop.deregister(registration) }
            }
        }
    }

    @Test("A half-closed peer is reported as readable, because the end of input can be read")
    func halfClosed() async throws {
        let sockets = try SocketPair()
        let near = sockets.near.rawValue
        let (events, event) = AsyncStream.makeStream(of: Readiness.self)
        try await withLoop { loop in
            try await loop.run { _ = try loop.register(near, interest: .read) { event.yield($0) } }
            shutdown(sockets.far.rawValue, Int32(SHUT_WR))
            let readiness = try await first(of: events)
            #expect(readiness.contains(.read))
            #expect(!readiness.contains(.hangUp))
        }
    }

    @Test("A refused connection is reported as an error, which the socket then returns")
    func error() async throws {
        // A port that the kernel has assigned, and on which no socket listens.
        let idle = try boundSocket()
        let client = FileDescriptor(owning: socket(AF_INET, Int32(SOCK_STREAM.rawValue | SOCK_NONBLOCK.rawValue), 0))
        let number = client.rawValue
        var address = try localAddress(of: idle.rawValue)
        let result = withUnsafePointer(to: &address) {
            $0.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                connect(number, $0, socklen_t(MemoryLayout<sockaddr_in>.size))
            }
        }
        try #require(result == -1 && (errno == EINPROGRESS || errno == ECONNREFUSED))
        let (events, event) = AsyncStream.makeStream(of: Readiness.self)
        try await withLoop { loop in
            try await loop.run { _ = try loop.register(number, interest: .write) { event.yield($0) } }
            #expect(try await first(of: events).contains(.error))
        }
        var code: Int32 = 0
        var size = socklen_t(MemoryLayout<Int32>.size)
        #expect(getsockopt(number, SOL_SOCKET, SO_ERROR, &code, &size) == 0)
        #expect(code == ECONNREFUSED)
    }

    @Test("Registering an unsupported descriptor throws the call and its error, and leaves nothing behind")
    func refused() async throws {
        try await withLoop { loop in
            try await loop.run {
                let file = FileDescriptor(owning: open("/proc/self/status", O_RDONLY))
                let error = #expect(throws: SystemError.self) {
                    _ = try loop.register(file.rawValue, interest: .read) { _ in }
                }
                #expect(error?.call == "epoll_ctl")
                #expect(error?.code == EPERM)
                let bad = #expect(throws: SystemError.self) { _ = try loop.register(-1, interest: .read) { _ in } }
                #expect(bad?.code == EBADF)
            }
            let sockets = try SocketPair()
            let near = sockets.near.rawValue
            let (events, event) = AsyncStream.makeStream(of: Readiness.self)
            try await loop.run { _ = try loop.register(near, interest: .write) { event.yield($0) } }
            #expect(try await first(of: events) == .write)
        }
    }

    @Test("All ready descriptors are reported, even if they are more than one poll returns")
    func many() async throws {
        // Twice as many as the loop receives from one poll.
        let ends = try (0..<512).map { _ in
            let sockets = try SocketPair()
            return (near: dup(sockets.near.rawValue), far: dup(sockets.far.rawValue))
        }
        defer {
            for end in ends {
                close(end.near)
                close(end.far)
            }
        }
        let (arrivals, arrival) = AsyncStream.makeStream(of: Int.self)
        try await withLoop { loop in
            try await loop.run {
                for (index, end) in ends.enumerated() {
                    _ = try loop.register(end.near, interest: .read) { _ in
                        if receive(from: end.near) != nil { arrival.yield(index) }
                    }
                }
            }
            for end in ends { try send(1, to: end.far) }
            var heard: Set<Int> = []
            for await index in arrivals {
                heard.insert(index)
                if heard.count == ends.count { break }
            }
            #expect(heard.count == ends.count)
        }
    }

    private func boundSocket() throws -> FileDescriptor {
        let descriptor = FileDescriptor(owning: socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0))
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_addr.s_addr = INADDR_LOOPBACK.bigEndian
        let result = withUnsafePointer(to: &address) {
            $0.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                bind(descriptor.rawValue, $0, socklen_t(MemoryLayout<sockaddr_in>.size))
            }
        }
        guard result == 0 else { throw SystemError(call: "bind") }
        return descriptor
    }

    private func localAddress(of descriptor: Int32) throws -> sockaddr_in {
        var address = sockaddr_in()
        var size = socklen_t(MemoryLayout<sockaddr_in>.size)
        let result = withUnsafeMutablePointer(to: &address) {
            $0.withMemoryRebound(to: sockaddr.self, capacity: 1) { getsockname(descriptor, $0, &size) }
        }
        guard result == 0 else { throw SystemError(call: "getsockname") }
        return address
    }
}
