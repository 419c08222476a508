internal import EventLoop
internal import KakaoAPI

/// All devices of one user at once.
extension DeviceSync {
    /// Devices of which Kakao is told while the caller waits; of further ones it is told in the background.
    private static let maximumAtOnce = 10

    /// Withdraws all devices of a user, also those that Kakao alone knows.
    ///
    /// - Returns: Whether Kakao has forgotten all of them. If not, it is told in the background what is known here; what it alone knows
    ///   is found by another call.
    func forgetDevices(ofUser userID: Int64) async throws -> Bool {
        let listed = try? await listedByKakao(userID)
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
    /// - Throws: ``KakaoError`` when Kakao does not tell its list; ``PostgresError``.
    func mendDevices(ofUser userID: Int64) async throws -> [DeviceDifference] {
        let differences = try await store.mend(userID: userID, listed: listedByKakao(userID))
        if !differences.isEmpty { wakeup.signal() }
        return differences
    }

    private func listedByKakao(_ userID: Int64) async throws(KakaoError) -> [PushToken] {
        do {
            // Kakao is asked for nobody else.
            let tokens = try await push.tokens(userIDs: [userID]).filter { $0.userID == userID }
            standing.noteAccepted()
            return tokens
        } catch {
            standing.note(error)
            throw error
        }
    }
}
