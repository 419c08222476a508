internal import HTTPServer
internal import HTTPTypes
internal import Locking
internal import Postgres

/// Access to metrics and status, for keys with the scope `read`. One for all loops of a server.
final class ReaderAccess: Sendable {
    /// How long a valid key is accepted while the database cannot be asked.
    private static let admissionTime = Duration.seconds(3600)
    /// More readers than any service has; beyond it all are forgotten.
    private static let maximumAdmissions = 16

    private let authenticator: Authenticator
    /// When each `Authorization`, by its digest, was last accepted.
    private let admissions = Locked<[[UInt8]: ContinuousClock.Instant]>([:])

    init(authenticator: Authenticator) {
        self.authenticator = authenticator
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
                try await pending()
                remember(digest)
            } catch let error as PostgresError where error.isTransient {
                let admission = admissions.withLock { $0[digest] }
                guard let admission, admission.duration(to: .now) < Self.admissionTime else { throw error }
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
