internal import EventLoop
internal import FoundationEssentials
internal import HTTPServer
internal import Locking
internal import Postgres

/// Which operators' keys are in force, and what they allow, as the database says: shared by all loops of a server.
///
/// The database's word is taken for less than a second, counted from when it was asked: so long a key that was revoked is still let in,
/// on whichever server and whatever becomes of the news, and a busy key costs a look-up a second. A key's end is counted in.
///
/// An address that keeps presenting bad keys has to wait (``BadKeyDelays``). Meanwhile the keys go on passing that this server has let in
/// before, for their owner may share the address; any other is refused without being looked up.
final class OperatorKeys: Sendable {
    /// How long the database's word is taken. Revocation is to work within a second.
    private static let trust = Duration.milliseconds(900)
    /// Keys that are remembered. More may be in force and are looked up each time they have been forgotten.
    static let maximumKeys = 1024
    /// Look-ups at a time.
    private static let maximumQuestions = 256

    private struct Entry: Sendable {
        let scopes: Set<Scope>
        /// Until then the database need not be asked again.
        let end: MonotonicTime
    }

    private struct State: Sendable {
        /// Keys that were in force when they were last looked up.
        var entries = LRUCache<[UInt8], Entry>(limit: OperatorKeys.maximumKeys)
        /// When keys in force were last used, as far as the database has not been told: nobody but their owners makes it grow.
        var uses: [[UInt8]: Date] = [:]
    }

    private let state = Locked(State())
    private let questions = SingleFlight<[UInt8], Result<Entry?, any Error>>(limit: maximumQuestions)
    private let delays = BadKeyDelays()

    /// How many keys and addresses are remembered.
    var count: Int { state.withLock { $0.entries.count } + delays.count }

    /// The scopes of a key, if it is in force.
    ///
    /// - Parameters:
    ///   - digest: Its SHA-256.
    ///   - address: Who presents it.
    ///   - store: Of the loop that the caller is on.
    ///   - loop: The calling one.
    /// - Throws: ``Problem`` 429 for an unknown key of an address that has to wait; an error of the database.
    func scopes(
        ofKeyWith digest: [UInt8],
        from address: @autoclosure () -> SocketAddress.Network,
        _ store: OperatorKeyStore,
        on loop: EventLoop
    ) async throws -> Set<Scope>? {
        let arrival = MonotonicTime.now
        let address = address()
        if let scopes = try knownScopes(ofKeyWith: digest, from: address, at: arrival) { return scopes }
        while true {
            let answer = await questions.answer(to: digest, on: loop) { await self.ask(digest, store) }
            guard let answer else { throw PostgresError(.overloaded, detail: "too many keys are looked up") }
            guard let entry = try answer.get() else {
                delays.recordInvalidKey(from: address)
                return nil
            }
            if entry.end > arrival { return use(entry, digest) }
            // An answer to a question that was asked too long ago. The next one is asked after this request has come.
        }
    }

    /// The scopes of a key that need not be looked up; `nil` if it has to be.
    ///
    /// - Throws: ``Problem`` 429 for an unknown key of an address that has to wait.
    func knownScopes(
        ofKeyWith digest: [UInt8],
        from address: @autoclosure () -> SocketAddress.Network,
        at now: MonotonicTime = .now
    ) throws -> Set<Scope>? {
        let known = entry(digest)
        if let known, known.end > now { return use(known, digest) }
        if known == nil, let wait = delays.wait(address(), at: now) {
            throw Problem.tooManyRequests(
                kind: "too-many-bad-keys",
                "Too many keys that are not in force came from this address.",
                wait: wait
            )
        }
        return nil
    }

    /// When keys were last used, by their SHA-256, since this was last called.
    func takeUses() -> [[UInt8]: Date] {
        state.withLock { state in
            defer { state.uses = [:] }
            return state.uses
        }
    }

    /// Gives back what could not be written.
    func putBack(_ uses: [[UInt8]: Date]) {
        state.withLock { $0.uses.merge(uses, uniquingKeysWith: max) }
    }

    private func entry(_ digest: [UInt8]) -> Entry? {
        state.withLock { $0.entries.value(digest) }
    }

    private func use(_ entry: Entry, _ digest: [UInt8]) -> Set<Scope> {
        let now = Date()
        state.withLock { $0.uses[digest] = now }
        return entry.scopes
    }

    /// Looks a key up, and remembers what the database said.
    private func ask(_ digest: [UInt8], _ store: OperatorKeyStore) async -> Result<Entry?, any Error> {
        let start = MonotonicTime.now
        // It may have been answered in the moment between looking and asking.
        if let entry = entry(digest), entry.end > start { return .success(entry) }
        do {
            let key = try await store.validKey(digest)
            let entry = key.map { Entry(scopes: $0.scopes, end: start + min($0.remaining, Self.trust)) }
            state.withLock { state in
                if let entry { state.entries.set(entry, for: digest) } else { state.entries.remove(digest) }
            }
            return .success(entry)
        } catch {
            return .failure(error)
        }
    }
}
