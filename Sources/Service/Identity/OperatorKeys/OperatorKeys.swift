import Endpoints
import EventLoop
import FoundationEssentials
import HTTPServer
import Locking
import Net
import Postgres
import Runtime

/// A cache of valid operator keys with their names and scopes, as stored in the database. Shared by all event loops of a server.
///
/// An entry is valid for less than a second, counted from the start of its look-up. A revoked key is accepted for that
/// long on every server, without relying on notifications, and a busy key costs one look-up a second. An entry also
/// ends when its key expires.
///
/// An address that keeps presenting invalid keys has to wait (``BadKeyDelays``). Meanwhile, keys that this server has
/// accepted before still pass, since their owner may share the address. Any other key is rejected without a look-up.
final class OperatorKeys: Sendable {
    /// How long an entry is valid. Revocation is to take effect within a second.
    private static let trust = Duration.milliseconds(900)
    /// The maximum number of cached keys. There may be more valid keys; an evicted one is looked up again.
    static let maximumKeys = 1024
    /// The maximum number of concurrent look-ups.
    private static let maximumLookUps = 256

    /// What a valid key allows.
    struct Grant: Sendable, Equatable {
        let id: UUID
        let name: String
        let scopes: Set<Scope>
    }

    private struct Entry: Sendable {
        let grant: Grant
        /// When the key has to be looked up again.
        let end: MonotonicTime
    }

    private struct State: Sendable {
        /// Keys that were valid at their last look-up.
        var entries = LRUCache<[UInt8], Entry>(limit: OperatorKeys.maximumKeys)
        /// The last uses of valid keys that are not yet written to the database. Only the keys' owners can make it
        /// grow.
        var uses: [[UInt8]: Date] = [:]
    }

    private let state = Locked(State())
    private let lookUps = SingleFlight<[UInt8], Result<Entry?, any Error>>(limit: maximumLookUps)
    private let delays = BadKeyDelays()
    /// The delays of addresses that present keys at the public port, where none is accepted. They are separate, so that callers
    /// of that port do not delay operators at theirs.
    private let publicDelays = BadKeyDelays()

    /// The number of cached keys and remembered addresses.
    var count: Int { state.withLock { $0.entries.count } + delays.count + publicDelays.count }

    /// Returns what a key allows; `nil` if the key is invalid.
    ///
    /// - Parameters:
    ///   - digest: The key's SHA-256.
    ///   - address: The address that presents the key.
    ///   - store: The store of `loop`.
    ///   - loop: The caller's event loop.
    /// - Throws: ``Problem`` 429 for an unknown key from an address that has to wait; an error of the database.
    func grant(
        ofKeyWith digest: [UInt8],
        from address: @autoclosure () -> SocketAddress.Network,
        _ store: OperatorKeyStore,
        on loop: EventLoop
    ) async throws -> Grant? {
        let arrival = MonotonicTime.now
        let address = address()
        if let grant = try knownGrant(ofKeyWith: digest, from: address, at: arrival) { return grant }
        while true {
            let answer = await lookUps.answer(to: digest, on: loop) { await self.lookUp(digest, store) }
            guard let answer else { throw PostgresError(.overloaded, detail: "too many concurrent key look-ups") }
            guard let entry = try answer.get() else {
                delays.recordInvalidKey(from: address)
                return nil
            }
            if entry.end > arrival { return recordUse(of: entry, digest) }
            // This look-up began before the request arrived, and its entry has expired. The next look-up begins later.
        }
    }

    /// Returns what a key allows if it is cached; `nil` if the key has to be looked up.
    ///
    /// - Throws: ``Problem`` 429 for an unknown key from an address that has to wait.
    func knownGrant(
        ofKeyWith digest: [UInt8],
        from address: @autoclosure () -> SocketAddress.Network,
        at now: MonotonicTime = .now
    ) throws -> Grant? {
        let known = entry(digest)
        if let known, known.end > now { return recordUse(of: known, digest) }
        if known == nil { try checkWait(address(), delays, at: now) }
        return nil
    }

    /// Counts a key that is rejected without a look-up, as an unknown key is counted.
    ///
    /// - Throws: ``Problem`` 429 while the address has to wait.
    func recordRejection(from address: SocketAddress.Network) throws {
        try checkWait(address, publicDelays, at: .now)
        publicDelays.recordInvalidKey(from: address)
    }

    private func checkWait(_ address: SocketAddress.Network, _ delays: BadKeyDelays, at now: MonotonicTime) throws {
        guard let wait = delays.wait(address, at: now) else { return }
        throw Problem.tooManyRequests(
            kind: ProblemKind.tooManyBadKeys.name,
            """
            Too many invalid credentials came from this network. Until it has waited, each key is refused that this server has not \
            accepted before, even a valid one.
            """,
            wait: wait
        )
    }

    /// Removes and returns the unwritten last uses, by the keys' SHA-256.
    func drainUses() -> [[UInt8]: Date] {
        state.withLock { state in
            defer { state.uses = [:] }
            return state.uses
        }
    }

    /// Restores uses that could not be written.
    func restore(_ uses: [[UInt8]: Date]) {
        state.withLock { $0.uses.merge(uses, uniquingKeysWith: max) }
    }

    private func entry(_ digest: [UInt8]) -> Entry? {
        state.withLock { $0.entries.value(digest) }
    }

    /// Records the use of a key, and returns what the key allows.
    private func recordUse(of entry: Entry, _ digest: [UInt8]) -> Grant {
        let now = Date()
        state.withLock { $0.uses[digest] = now }
        return entry.grant
    }

    /// Looks a key up in the database, and caches the result.
    private func lookUp(_ digest: [UInt8], _ store: OperatorKeyStore) async -> Result<Entry?, any Error> {
        let start = MonotonicTime.now
        // An earlier look-up may have ended between the check of the cache and this call.
        if let entry = entry(digest), entry.end > start { return .success(entry) }
        do {
            let key = try await store.pool.read(FindValidOperatorKey(sha256: digest)).first
            let entry = key.map { Entry(grant: $0.grant, end: start + min($0.remaining, Self.trust)) }
            state.withLock { state in
                if let entry { state.entries.set(entry, for: digest) } else { state.entries.remove(digest) }
            }
            return .success(entry)
        } catch {
            return .failure(error)
        }
    }
}
