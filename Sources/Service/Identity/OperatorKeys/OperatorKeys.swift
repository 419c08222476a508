import Endpoints
import EventLoop
import FoundationEssentials
import HTTPServer
import Locking
import Net
import Postgres
import Runtime

/// A credential of operators that the database knows.
enum StoredCredential: Sendable {
    /// An operator key with this SHA-256.
    case key([UInt8])
    /// The cookie of a session with this SHA-256. `setting` is the SHA-256 of the key in the settings, with which operators sign in, too.
    case session([UInt8], setting: [UInt8])

    fileprivate var digest: [UInt8] {
        switch self {
        case .key(let digest), .session(let digest, _): digest
        }
    }
}

/// A cache of valid operator keys and sessions with their names and scopes, as stored in the database. Shared by all event loops of
/// a server.
///
/// An entry is valid for less than a second, counted from the start of its look-up. A revoked key, or a session with it, is accepted for
/// that long on every server, without relying on notifications, and a busy key costs one look-up a second. An entry also ends when its
/// key expires.
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

    /// The result of a look-up.
    private enum LookUp: Sendable {
        case valid(Entry)
        /// A session that has ended, or whose key is no longer valid. Its browser does not guess.
        case ended
        case unknown
    }

    private struct Entry: Sendable {
        let key: KeyIdentity
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
    private let lookUps = SingleFlight<[UInt8], Result<LookUp, any Error>>(limit: maximumLookUps)
    private let delays = BadKeyDelays()
    /// The delays of addresses that present keys at the public port, where none is accepted. They are separate, so that callers
    /// of that port do not delay operators at theirs.
    private let publicDelays = BadKeyDelays()

    /// The number of cached keys and remembered addresses.
    var count: Int { state.withLock { $0.entries.count } + delays.count + publicDelays.count }

    /// Returns the key, or the key of the session; `nil` if it is invalid.
    ///
    /// - Parameters:
    ///   - address: The address that presents it.
    ///   - store: The store of `loop`.
    ///   - loop: The caller's event loop.
    /// - Throws: ``Problem`` 429 for an unknown key from an address that has to wait; an error of the database.
    func key(
        of credential: StoredCredential,
        from address: @autoclosure () -> SocketAddress.Network,
        _ store: OperatorKeyStore,
        on loop: EventLoop
    ) async throws -> KeyIdentity? {
        let arrival = MonotonicTime.now
        let address = address()
        if let key = try knownKey(of: credential, from: address, at: arrival) { return key }
        while true {
            let answer = await lookUps.answer(to: credential.digest, on: loop) { await self.lookUp(credential, store) }
            guard let answer else { throw PostgresError(.overloaded, detail: "too many concurrent key look-ups") }
            switch try answer.get() {
            case .valid(let entry) where entry.end > arrival: return recordUse(of: entry)
            // This look-up began before the request arrived, and its entry has expired. The next look-up begins later.
            case .valid: break
            case .ended: return nil
            case .unknown:
                delays.recordInvalidKey(from: address)
                return nil
            }
        }
    }

    /// Looks up a session that has just begun, so that its browser need not wait with others of its address that guess.
    func remember(_ session: StoredCredential, _ store: OperatorKeyStore, on loop: EventLoop) async {
        _ = await lookUps.answer(to: session.digest, on: loop) { await self.lookUp(session, store) }
    }

    /// Returns the key, or the key of the session, if it is cached; `nil` if it has to be looked up.
    ///
    /// - Throws: ``Problem`` 429 for an unknown key from an address that has to wait.
    func knownKey(
        of credential: StoredCredential,
        from address: @autoclosure () -> SocketAddress.Network,
        at now: MonotonicTime = .now
    ) throws -> KeyIdentity? {
        let known = entry(credential.digest)
        if let known, known.end > now { return recordUse(of: known) }
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

    /// Records the use of a key, and returns the key. The key in the settings has no row to record it in.
    private func recordUse(of entry: Entry) -> KeyIdentity {
        let digest = entry.key.digest
        guard !digest.isEmpty else { return entry.key }
        let now = Date()
        state.withLock { $0.uses[digest] = now }
        return entry.key
    }

    /// Looks a key or session up in the database, and caches the result.
    private func lookUp(_ credential: StoredCredential, _ store: OperatorKeyStore) async -> Result<LookUp, any Error> {
        let (start, digest) = (MonotonicTime.now, credential.digest)
        // An earlier look-up may have ended between the check of the cache and this call.
        if let entry = entry(digest), entry.end > start { return .success(.valid(entry)) }
        do {
            switch try await store.find(credential) {
            case .valid(let key, let remaining):
                let entry = Entry(key: key, end: start + min(remaining, Self.trust))
                state.withLock { $0.entries.set(entry, for: digest) }
                return .success(.valid(entry))
            case .ended:
                state.withLock { $0.entries.remove(digest) }
                return .success(.ended)
            case .unknown:
                state.withLock { $0.entries.remove(digest) }
                return .success(.unknown)
            }
        } catch {
            return .failure(error)
        }
    }
}
