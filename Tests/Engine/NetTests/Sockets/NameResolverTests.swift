import Dispatch
import EventLoop
import Locking
import Net
import TestSupport
import Testing

/// The resolver of host names.
@Suite(.timeLimit(.minutes(1))) struct NameResolverTests {
    /// A look-up that counts its calls, and knows names that begin with `known`.
    private final class LookUps: Sendable {
        let names = Locked<[String]>([])

        var resolver: NameResolver {
            NameResolver { [names] name in
                names.withLock { $0.append(name) }
                guard name.hasPrefix("known"), let address = SocketAddress("127.0.0.1") else {
                    return .failure(NameResolver.Failure("\(name): unknown"))
                }
                return .success([address])
            }
        }

        func count(of name: String) -> Int { names.withLock { $0.count { $0 == name } } }
    }

    @Test("The system's resolver knows localhost, and says which name it does not know")
    func system() async throws {
        #expect(try await !NameResolver.system.addresses(of: "localhost").get().isEmpty)
        await #expect(throws: NameResolver.Failure.self) {
            try await NameResolver.system.addresses(of: "name.invalid").get()
        }
        guard case .failure(let failure) = NameResolver.lookUp("name.invalid") else {
            Issue.record("name.invalid has an address")
            return
        }
        #expect(failure.description.hasPrefix("name.invalid: "))
    }

    @Test("A numeric address needs no look-up")
    func numeric() async throws {
        let lookUps = LookUps()
        let resolver = lookUps.resolver
        #expect(try await resolver.addresses(of: "10.1.2.3").get().map(\.host) == ["10.1.2.3"])
        #expect(try await resolver.addresses(of: "::1").get().map(\.isV6) == [true])
        #expect(lookUps.names.withLock { $0.isEmpty })
    }

    @Test("Addresses and failures are cached, until they are invalidated")
    func memory() async throws {
        let lookUps = LookUps()
        let resolver = lookUps.resolver
        for name in ["known", "unknown"] {
            for _ in 0..<3 { _ = await resolver.addresses(of: name) }
            #expect(lookUps.count(of: name) == 1)
            resolver.invalidate(name)
            _ = await resolver.addresses(of: name)
            #expect(lookUps.count(of: name) == 2)
        }
    }

    @Test("Several names are looked up anew at once, each with its own answer")
    func several() async throws {
        let lookUps = LookUps()
        let resolver = lookUps.resolver
        let group = try EventLoopGroup(count: 1)
        defer { group.shutdown() }
        for count in 1...2 {
            let answers = await withCheckedContinuation { continuation in
                resolver.refreshAddresses(of: ["known", "unknown"], on: group.loops[0]) {
                    continuation.resume(returning: $0)
                }
            }
            #expect(answers.count == 2)
            #expect((try? answers["known"]?.get())?.isEmpty == false)
            #expect((try? answers["unknown"]?.get()) == nil)
            #expect(lookUps.count(of: "known") == count && lookUps.count(of: "unknown") == count)
        }
    }

    @Test("More names than are kept are resolved nevertheless")
    func manyNames() async throws {
        let resolver = LookUps().resolver
        for number in 0..<600 { #expect(try await resolver.addresses(of: "known-\(number)").get().count == 1) }
    }

    @Test("A resolver that hangs collects a limited number of callers, and the others fail")
    func limit() async throws {
        let gate = DispatchSemaphore(value: 0)
        let resolver = NameResolver { _ in
            gate.wait()
            return .success([])
        }
        let group = try EventLoopGroup(count: 1)
        defer { group.shutdown() }
        let (answers, failures) = (Locked(0), Locked<[String]>([]))
        let total = 20_000
        for _ in 0..<total {
            resolver.addresses(of: "name", on: group.loops[0]) { answer in
                answers.withLock { $0 += 1 }
                if case .failure(let failure) = answer { failures.withLock { $0.append("\(failure)") } }
            }
        }
        try await eventually("some fail") { !failures.withLock { $0.isEmpty } }
        gate.signal()
        try await eventually("all are answered") { answers.withLock { $0 } == total }
        #expect(failures.withLock { Set($0) } == ["name: the resolver does not respond"])
        #expect(failures.withLock { $0.count } < total)
    }

    @Test("An answer that is known arrives after the question has returned")
    func later() async throws {
        let resolver = LookUps().resolver
        let group = try EventLoopGroup(count: 1)
        defer { group.shutdown() }
        let loop = group.loops[0]
        for name in ["unknown", "unknown", "127.0.0.1"] {
            let isEarly = await withCheckedContinuation { continuation in
                loop.execute {
                    let hasReturned = Locked(false)
                    resolver.addresses(of: name, on: loop) { _ in
                        continuation.resume(returning: !hasReturned.withLock { $0 })
                    }
                    hasReturned.withLock { $0 = true }
                }
            }
            // The first question is answered by another thread.
            #expect(!isEarly, "\(name)")
        }
    }

    @Test("Concurrent questions share a look-up, and a resolver that hangs blocks nothing else")
    func hanging() async throws {
        let gate = DispatchSemaphore(value: 0)
        let names = Locked<[String]>([])
        let resolver = NameResolver { name in
            names.withLock { $0.append(name) }
            gate.wait()
            return .success([])
        }
        let group = try EventLoopGroup(count: 1)
        defer { group.shutdown() }
        let answers = Locked(0)
        for number in 0..<64 {
            for _ in 0..<3 {
                resolver.addresses(of: "name-\(number)", on: group.loops[0]) { _ in answers.withLock { $0 += 1 } }
            }
        }
        try await eventually("look-ups hang") { names.withLock { $0.count } == 4 }
        // Where files are written and certificates are read.
        await withCheckedContinuation { continuation in
            EventLoop.blocking.async { continuation.resume() }
        }
        for _ in 0..<64 { gate.signal() }
        try await eventually("all are answered") { answers.withLock { $0 } == 3 * 64 }
        #expect(names.withLock { Set($0).count } == 64)
        #expect(names.withLock { $0.count } == 64)
    }
}
