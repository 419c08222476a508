import Net

/// What the TLS connections of a client share: the context, and the latest session with each origin.
///
/// Confined to the client's loop.
final class TLSSessions {
    /// The maximum number of origins whose session is kept.
    private static let maximumOrigins = 64

    private let trust: TrustStore?
    private var sharedContext: TLSContext?
    private var sessions: [Origin: TLSSession] = [:]

    init(trusting trust: TrustStore?) {
        self.trust = trust
    }

    /// Returns the context, which the first connection creates: a client without TLS needs none.
    ///
    /// - Throws: ``TLSError`` if OpenSSL is out of memory.
    func context() throws -> TLSContext {
        if let sharedContext { return sharedContext }
        let context = try TLSContext(trusting: trust)
        sharedContext = context
        return context
    }

    subscript(origin: Origin) -> TLSSession? {
        get { sessions[origin] }
        set {
            if sessions.count >= Self.maximumOrigins, sessions[origin] == nil { sessions.removeAll() }
            sessions[origin] = newValue
        }
    }
}
