import Crypto
import Endpoints
import EventLoop
import HTTPServer
import HTTPTypes
import Locking
import Postgres

/// Access to metrics and status for keys with the scope `read`. One instance serves all event loops of a server.
final class MonitoringAccess: Sendable {
    /// The time limit for the look-up of a key.
    private static let limit = Duration.seconds(2)
    /// How long a key that was valid is accepted while the database is unavailable.
    private static let admissionTime = Duration.seconds(3600)
    /// The maximum number of accepted keys remembered, more than any service has readers. When it is exceeded, all are
    /// evicted.
    private static let maximumAdmissions = 16

    /// When each `Authorization`, or cookie of a session, was last accepted, by its SHA-256.
    private let admissions = Locked<[[UInt8]: MonotonicTime]>([:])

    /// Admits a request whose key has the scope `read`. Keys cannot be looked up while the database is unavailable,
    /// which is when operators need the metrics most. Therefore a key that was accepted within the last hour is
    /// accepted again.
    ///
    /// - Parameter checkKey: Checks the key of the request.
    /// - Throws: The errors of `checkKey`.
    func check(_ request: Request, by checkKey: HeadCheck) throws -> PendingCheck? {
        let digest =
            request[.authorization].map { SHA256Digest.of($0) } ?? SessionCookie(request)?.digest ?? []
        let pending: PendingCheck?
        do {
            pending = try checkKey(request)
        } catch {
            removeAdmission(digest)
            throw error
        }
        guard let pending else {
            recordAdmission(digest, of: request)
            return nil
        }
        return { [self] in
            do {
                let passed: Void? = try await request.loop.run(within: Self.limit) { try await pending() }
                if passed == nil { throw PostgresError(.timedOut) }
                recordAdmission(digest, of: request)
            } catch let error as PostgresError where error.isTransient {
                let admission = admissions.withLock { $0[digest] }
                guard let admission, MonotonicTime.now - admission < Self.admissionTime else {
                    throw Self.unknownKey
                }
            } catch {
                removeAdmission(digest)
                throw error
            }
        }
    }

    /// An operator who has another key than `operator.key` must learn that it is not the key that is wrong.
    private static var unknownKey: Problem {
        Problem(
            of: .databaseUnavailable,
            """
            The database is unavailable, and this server has not accepted this key for the status or the metrics within the last hour. \
            Use the key of the setting operator.key.
            """,
            headerFields: [.retryAfter: "1"]
        )
    }

    private func recordAdmission(_ digest: [UInt8], of request: Request) {
        // The key of the settings needs no database. A reload may replace it, and the old one is then invalid.
        guard (request.principal as? Caller)?.key?.id != KeyIdentity.setting.id else { return }
        admissions.withLock { admissions in
            if admissions[digest] == nil, admissions.count >= Self.maximumAdmissions { admissions.removeAll() }
            admissions[digest] = .now
        }
    }

    private func removeAdmission(_ digest: [UInt8]) {
        admissions.withLock { $0[digest] = nil }
    }
}
