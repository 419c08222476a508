internal import EventLoop
internal import HTTPServer
internal import HTTPTypes
internal import KakaoAPI

/// All devices of one user at once.
extension DeviceRegistrar {
    /// Devices of which Kakao is told while the caller waits; of further ones it is told in the background.
    private static let maximumAtOnce = 10

    /// Withdraws all devices of a user, also those that Kakao alone knows.
    ///
    /// - Returns: Whether Kakao has forgotten all of them. If not, it is told in the background what is known here; what it alone knows
    ///   is found by another call.
    func forgetDevices(ofUser userID: Int64) async throws -> Bool {
        let listed = try? await tokensAtKakao(ofUsers: [userID])
        if let listed, !listed.isEmpty { try await store.addWithdrawn(listed) }
        let withdrawal = try await store.withdrawAll(ofUser: userID)
        var waiting = withdrawal.unsettled[...]
        while let device = waiting.first, withdrawal.unsettled.count - waiting.count < Self.maximumAtOnce {
            waiting.removeFirst()
            guard case .deregistered = try await settle(device) else {
                for device in waiting { try await postpone(device) }
                return false
            }
        }
        for device in waiting { try await postpone(device) }
        return listed != nil && waiting.isEmpty && !withdrawal.isShared
    }

    /// Compares the devices of a user with Kakao's list and has the difference mended in the background.
    ///
    /// - Throws: ``Problem`` when Kakao does not answer; ``PostgresError``.
    func reconcileDevices(ofUser userID: Int64) async throws -> [DeviceDifference] {
        let differences = try await store.reconcile(userID: userID, listed: tokensAtKakao(ofUsers: [userID]))
        if !differences.isEmpty { signal.send() }
        return differences
    }

    /// The tokens that Kakao has of some users.
    ///
    /// - Throws: ``Problem``: 503 when Kakao is unavailable, 502 when it refuses the call.
    func tokensAtKakao(ofUsers userIDs: [Int64]) async throws -> [PushToken] {
        do throws(KakaoError) {
            // Kakao is asked for nobody else.
            let tokens = try await push.tokens(userIDs: userIDs).filter { userIDs.contains($0.userID) }
            availability.recordAcceptance()
            return tokens
        } catch {
            availability.recordFailure(error)
            throw Problem.tokensNotListed(error)
        }
    }
}

extension Problem {
    fileprivate static func tokensNotListed(_ error: KakaoError) -> Problem {
        switch error.disposition {
        case .retry, .wait, .halt:
            Problem(
                .serviceUnavailable,
                kind: "kakao-unavailable",
                "Kakao is unavailable: the users' tokens could not be listed. Try again.",
                headerFields: [.retryAfter: "10"]
            )
        case .invalid, .fail:
            Problem(.badGateway, "Kakao refused to list the users' tokens.")
        }
    }
}
