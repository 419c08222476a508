internal import EventLoop
internal import HTTPServer
internal import HTTPTypes
internal import Locking
internal import Postgres

/// Access to metrics and status, for keys with the scope `read`. One for all loops of a server.
final class ReaderAccess: Sendable {
    /// How long the database may take to look a key up.
    private static let limit = Duration.seconds(2)
    /// How long a valid key is accepted while the database cannot be asked.
    private static let admissionTime = Duration.seconds(3600)
    /// More readers than any service has; beyond it all are forgotten.
    private static let maximumAdmissions = 16

    private let authenticator: Authenticator
    private let loop: EventLoop
    /// When each `Authorization`, by its digest, was last accepted.
    private let admissions = Locked<[[UInt8]: MonotonicTime]>([:])

    /// - Parameter loop: The one that times look-ups.
    init(authenticator: Authenticator, loop: EventLoop) {
        self.authenticator = authenticator
        self.loop = loop
    }

    /// Lets a request pass whose key may read. While the database is away keys cannot be looked up, and just then operators want to know how
    /// things are: a key that was accepted shortly before still is.
    ///
    /// - Throws: as ``Authenticator/check(_:)``.
    @Sendable func check(_ request: Request) throws -> PendingCheck? {
        let digest = SHA256Digest.of(request[.authorization] ?? "")
        let pending: PendingCheck?
        do {
            pending = try authenticator.check(.operator(.read))?(request)
        } catch {
            forget(digest)
            throw error
        }
        guard let pending else {
            remember(digest)
            return nil
        }
        return { [self] in
            do {
                let passed: Void? = try await loop.run(within: Self.limit) { try await pending() }
                if passed == nil { throw PostgresError(.timedOut) }
                remember(digest)
            } catch let error as PostgresError where error.isTransient {
                let admission = admissions.withLock { $0[digest] }
                guard let admission, MonotonicTime.now - admission < Self.admissionTime else { throw error }
            } catch {
                forget(digest)
                throw error
            }
        }
    }

    private func remember(_ digest: [UInt8]) {
        admissions.withLock { admissions in
            if admissions[digest] == nil, admissions.count >= Self.maximumAdmissions { admissions.removeAll() }
            admissions[digest] = .now
        }
    }

    private func forget(_ digest: [UInt8]) {
        admissions.withLock { $0[digest] = nil }
    }
}
