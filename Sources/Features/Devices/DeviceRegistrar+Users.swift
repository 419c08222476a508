import Endpoints
import EventLoop
import FoundationEssentials
import HTTPServer
import HTTPTypes
import KakaoAPI
import Postgres
import Runtime

/// Operations on all devices of one user.
extension DeviceRegistrar {
    /// The maximum number of devices that are deregistered at Kakao while the caller waits. Further ones are left
    /// pending.
    private static let maximumAtOnce = 10

    /// Withdraws all devices of a user, including those that only Kakao knows.
    ///
    /// - Parameter end: Only those that were registered until then, as of then, if PostgreSQL has lost that they were withdrawn: a later
    ///   registration that is lost too is stored again afterwards (``RestoreRegistration``). `nil` for all.
    /// - Returns: Whether Kakao has deregistered all of them. If not, stored devices are pending, and devices that only
    ///   Kakao knows may need another call.
    func withdrawDevices(ofUser userID: Int64, registeredUntil end: Date? = nil) async throws -> Bool {
        let listed = try? await tokensAtKakao(ofUsers: [userID])
        if let listed, !listed.isEmpty {
            try await store.pool.write(AddWithdrawnDevices(tokens: listed, withdrawnAt: end))
        }
        let devices = try await store.pool.write(WithdrawUserDevices(userID: userID, registeredUntil: end))
        let pending = devices.compactMap(\.self)
        var waiting = pending[...]
        while let device = waiting.first, pending.count - waiting.count < Self.maximumAtOnce {
            waiting.removeFirst()
            guard case .deregistered = try await synchronize(device) else {
                for device in waiting { try await postpone(device) }
                return false
            }
        }
        for device in waiting { try await postpone(device) }
        // Another request or server calls Kakao about the others.
        return listed != nil && waiting.isEmpty && pending.count == devices.count
    }

    /// Compares the devices of a user with Kakao's list, and marks those that differ as pending.
    ///
    /// - Parameters:
    ///   - isDryRun: Whether to change nothing.
    ///   - record: The record for the audit log.
    /// - Throws: ``Problem`` if Kakao does not list the tokens; ``PostgresError``.
    func reconcileDevices(
        ofUser userID: Int64,
        isDryRun: Bool,
        recording record: AuditRecord?
    ) async throws -> [DeviceDifference] {
        let listed = try await tokensAtKakao(ofUsers: [userID])
        let reconciliation = ReconcileDevices(userID: userID, listed: listed, isDryRun: isDryRun)
        let differences = try await store.pool.write(reconciliation, recording: record)
        if !isDryRun, !differences.isEmpty { signal.send() }
        return differences
    }

    /// Lists the tokens of users at Kakao.
    ///
    /// - Throws: ``Problem``: 503 if Kakao is unavailable, 502 if it rejects the call.
    func tokensAtKakao(ofUsers userIDs: [Int64]) async throws -> [PushToken] {
        do throws(KakaoError) {
            let tokens = try await kakao.call(
                RetrievePushTokens(version: kakao.settings.pushVersion, userIDs: userIDs)
            )
            return tokens.compactMap { PushToken($0) }.filter { userIDs.contains($0.userID) }
        } catch {
            throw Problem.tokensNotListed(error)
        }
    }
}

extension Problem {
    fileprivate static func tokensNotListed(_ error: KakaoError) -> Problem {
        switch error.disposition {
        case .halt:
            Problem(
                of: .serverRefused,
                "Kakao rejected this server: the users' tokens could not be listed. An operator must act."
            )
        case .retry, .unrecognized, .wait:
            Problem(
                of: .kakaoUnavailable,
                "Kakao is unavailable: the users' tokens could not be listed. Try again.",
                headerFields: [.retryAfter: "10"]
            )
        case .invalid, .fail, .logIn, .consent:
            Problem(of: .badGateway, "Kakao rejected the request for the users' tokens.")
        }
    }
}
