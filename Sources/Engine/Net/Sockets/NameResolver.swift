import CLinux
import Dispatch
package import EventLoop
import Glibc
import Locking

/// A resolver of host names off the loops, with a short memory.
///
/// Answers are kept for ``lifetime``, since the C library does not tell how long they are valid, and failures for
/// ``failureLifetime``. Concurrent questions about one name share a look-up. Only a few look-ups run at a time, each on a
/// thread of its own: a resolver that does not respond blocks neither a loop nor ``EventLoop/blocking``.
package final class NameResolver: Sendable {
    /// The reason why a name has no address.
    package struct Failure: Error, Sendable, CustomStringConvertible {
        /// A message for people, which names the host.
        package let description: String

        package init(_ description: String) {
            self.description = description
        }
    }

    package typealias Answer = Result<[SocketAddress], Failure>

    /// The resolver of the system, by `getaddrinfo`. All clients of the process share it.
    package static let system = NameResolver { lookUp($0) }

    /// The time for which addresses are kept.
    private static let lifetime: Int64 = 30
    /// The time for which a failure is kept: long enough to spare the resolver, too short to delay a recovery.
    private static let failureLifetime: Int64 = 5
    /// The maximum number of look-ups at a time.
    private static let maximumLookUps = 4
    /// The maximum number of callers that wait for one name. Without this limit, a resolver that never responds would
    /// collect them forever.
    private static let maximumWaiting = 10_000
    /// The number of names at which the expired ones are evicted.
    private static let maximumNames = 256

    private struct Known {
        let answer: Answer
        /// The second of the loop's clock from which on the answer is not used.
        let expiresAt: Int64
    }

    private struct State {
        var known: [String: Known] = [:]
        /// Those who wait for a look-up of a name.
        var waiting: [String: [@Sendable (Answer) -> Void]] = [:]
        /// The names whose look-up has not begun.
        var queue: [String] = []
        var lookUps = 0
    }

    private let lookUp: @Sendable (String) -> Answer
    private let state = Locked(State())

    /// Creates a resolver that asks `lookUp`, which may block.
    package init(lookUp: @escaping @Sendable (String) -> Answer) {
        self.lookUp = lookUp
    }

    /// Calls `body` on `loop`, after this call has returned, with the addresses of a host in the order in which they should
    /// be tried (RFC 6724). Their port is 0.
    package func addresses(of host: String, on loop: EventLoop, _ body: @escaping @Sendable (Answer) -> Void) {
        answer(host) { answer in
            // Not within this call: a caller may ask again as soon as it has an answer, thousands of times in a row.
            guard loop.isOnLoop else { return loop.execute { body(answer) } }
            loop.schedule(after: .zero) { body(answer) }
        }
    }

    /// Returns the addresses of a host, with port 0.
    package func addresses(of host: String) async -> Answer {
        await withCheckedContinuation { continuation in answer(host) { continuation.resume(returning: $0) } }
    }

    /// Calls `body` on `loop` with the addresses of several hosts, bypassing the cache.
    ///
    /// - Parameter hosts: At least one.
    package func refreshAddresses(
        of hosts: Set<String>,
        on loop: EventLoop,
        _ body: @escaping @Sendable ([String: Answer]) -> Void
    ) {
        let answers = Locked<[String: Answer]>([:])
        for host in hosts {
            invalidate(host)
            addresses(of: host, on: loop) { answer in
                let all = answers.withLock { answers in
                    answers[host] = answer
                    return answers.count == hosts.count ? answers : nil
                }
                if let all { body(all) }
            }
        }
    }

    private func answer(_ host: String, _ receive: @escaping @Sendable (Answer) -> Void) {
        if let address = SocketAddress(host) { return receive(.success([address])) }
        let now = Self.now
        let known: Answer? = state.withLock { state in
            if let known = state.known[host], now < known.expiresAt { return known.answer }
            guard state.waiting[host]?.count ?? 0 < Self.maximumWaiting else {
                return .failure(Failure("\(host): the resolver does not respond"))
            }
            state.waiting[host, default: []].append(receive)
            if state.waiting[host]?.count == 1 { state.queue.append(host) }
            return nil
        }
        if let known { return receive(known) }
        beginLookUps()
    }

    /// Invalidates the cached addresses of a host, none of which could be reached.
    package func invalidate(_ host: String) {
        state.withLock { $0.known[host] = nil }
    }

    private func beginLookUps() {
        let names = state.withLock { state in
            let names = state.queue.prefix(Self.maximumLookUps - state.lookUps)
            state.queue.removeFirst(names.count)
            state.lookUps += names.count
            return names
        }
        for name in names {
            // A serial queue has a thread of its own, however many blocks of others wait.
            DispatchQueue(label: "resolver").async { self.deliver(self.lookUp(name), for: name) }
        }
    }

    private func deliver(_ answer: Answer, for name: String) {
        let now = Self.now
        let waiting = state.withLock { state in
            state.lookUps -= 1
            if state.known.count >= Self.maximumNames { state.known = state.known.filter { now < $0.value.expiresAt } }
            if state.known.count < Self.maximumNames {
                let lifetime = (try? answer.get()) == nil ? Self.failureLifetime : Self.lifetime
                state.known[name] = Known(answer: answer, expiresAt: now + lifetime)
            }
            return state.waiting.removeValue(forKey: name) ?? []
        }
        for receive in waiting { receive(answer) }
        beginLookUps()
    }

    private static var now: Int64 { Int64(EventLoop.milliseconds() / 1000) }

    /// Returns the addresses of a host, and blocks until they are known.
    package static func lookUp(_ host: String) -> Answer {
        if let address = SocketAddress(host) { return .success([address]) }
        var hints = addrinfo()
        hints.ai_socktype = Int32(SOCK_STREAM.rawValue)
        var list: UnsafeMutablePointer<addrinfo>?
        let status = getaddrinfo(host, nil, &hints, &list)
        guard status == 0, let list else {
            return .failure(Failure("\(host): \(String(cString: gai_strerror(status)))"))
        }
        defer { freeaddrinfo(list) }
        var addresses: [SocketAddress] = []
        for entry in sequence(first: list, next: { $0.pointee.ai_next }) {
            var storage = sockaddr_storage()
            memcpy(&storage, entry.pointee.ai_addr, Int(entry.pointee.ai_addrlen))
            let address = SocketAddress(storage)
            if address.bits != nil, !addresses.contains(address) { addresses.append(address) }
        }
        return addresses.isEmpty ? .failure(Failure("\(host): no address")) : .success(addresses)
    }
}
