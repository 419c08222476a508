import Dispatch
import EventLoop
import Glibc
import Locking
import Testing

/// Runs `body` with a running loop, and ends the loop afterwards.
func withLoop<Value>(_ body: (EventLoop) async throws -> Value) async throws -> Value {
    let loop = try EventLoop(label: "test")
    loop.start()
    do {
        let value = try await body(loop)
        await loop.end()
        return value
    } catch {
        await loop.end()
        throw error
    }
}

extension EventLoop {
    /// Runs `body` on the loop and waits for its result. Also ends at the test's time limit, even if the loop hangs.
    func run<Value: Sendable>(_ body: @escaping @Sendable () throws -> Value) async throws -> Value {
        let (results, result) = AsyncStream.makeStream(of: Result<Value, any Error>.self)
        execute { result.yield(Result { try body() }) }
        return try await first(of: results).get()
    }

    /// Lets the loop run two more ticks, so that everything that was due has happened.
    func turn() async throws {
        try await run {}
        try await run {}
    }

    /// Calls `body` at the end of this tick and of each later one, so that the loop does not sleep.
    func atEndOfEachTick(_ body: @escaping () -> Void) {
        atEndOfTick {
            body()
            self.atEndOfEachTick(body)
        }
    }

    /// Stops the loop and waits until it has ended.
    func end() async {
        stop()
        let (ends, end) = AsyncStream.makeStream(of: Void.self)
        EventLoop.blocking.async {
            self.join()
            end.yield()
        }
        _ = try? await first(of: ends)
    }
}

extension Task where Success: Sendable {
    /// The task's result. Unlike ``value``, it does not outlast the test's time limit.
    var outcome: Success {
        get async throws {
            let (results, result) = AsyncStream.makeStream(of: Result<Success, Failure>.self)
            Task<Void, Never> { result.yield(await self.result) }
            return try await first(of: results).get()
        }
    }
}

/// Returns the first element. Throws if the test is cancelled at its time limit before there is one.
func first<Element>(of stream: AsyncStream<Element>) async throws -> Element {
    for await element in stream { return element }
    throw CancellationError()
}

/// A list of events in order, recorded from any thread.
final class Journal<Entry: Sendable & Equatable>: Sendable {
    private let noted = Locked<[Entry]>([])

    var entries: [Entry] { noted.withLock { $0 } }

    func note(_ entry: Entry) {
        noted.withLock { $0.append(entry) }
    }
}

/// Two connected, non-blocking sockets.
struct SocketPair: ~Copyable, Sendable {
    let near: FileDescriptor
    let far: FileDescriptor

    init() throws {
        var ends: [Int32] = [0, 0]
        guard socketpair(AF_UNIX, Int32(SOCK_STREAM.rawValue) | Int32(SOCK_NONBLOCK.rawValue), 0, &ends) == 0 else {
            throw SystemError(call: "socketpair")
        }
        near = FileDescriptor(owning: ends[0])
        far = FileDescriptor(owning: ends[1])
    }
}

/// Returns a socket whose peer is closed.
func orphan() throws -> FileDescriptor {
    let sockets = try SocketPair()
    return FileDescriptor(owning: dup(sockets.near.rawValue))
}

/// Writes one byte, for which there must be room.
func send(_ byte: UInt8, to descriptor: Int32) throws {
    var byte = byte
    guard write(descriptor, &byte, 1) == 1 else { throw SystemError(call: "write") }
}

/// Reads the next byte. Returns `nil` if there is none yet, or at the end.
func receive(from descriptor: Int32) -> UInt8? {
    var byte: UInt8 = 0
    return read(descriptor, &byte, 1) == 1 ? byte : nil
}

/// A list of registrations, in which a handler looks up those that were unknown when it was created. Accessed on the
/// loop of its test only.
final class Registrations {
    private var all: [Registration] = []

    subscript(index: Int) -> Registration { all[index] }

    func append(_ registration: Registration) {
        all.append(registration)
    }
}
