internal import EventLoop
internal import FoundationEssentials
internal import KakaoAPI
internal import Logging
internal import Postgres

/// Tells Kakao what was asked for a device, and notes what Kakao answered.
struct DeviceRegistrar: Sendable {
    /// What became of it.
    enum Result: Sendable {
        /// Kakao has the token for so long.
        case registered(TokenLifetime)
        /// Kakao has forgotten it.
        case deregistered
        /// Kakao could not be reached, or does not take calls at the moment: it is told later.
        case postponed
        /// Kakao refuses this registration for good.
        case refused(KakaoError)
    }

    private static let secondsPerDay = 86_400.0
    private static let longestDelay = Duration.seconds(300)

    let store: DeviceStore
    let push: KakaoPushAPI
    let availability: KakaoAvailability
    let renewal: RenewalTime
    /// Has the background worker look, when something is left for it.
    let signal: Signal

    /// Tells Kakao about a device on which the caller holds the lease, and gives the lease up.
    ///
    /// - Throws: ``PostgresError`` when the answer cannot be noted: the lease then ends by itself, and Kakao is told again.
    func settle(_ device: PendingDevice) async throws -> Result {
        let lifetime: TokenLifetime?
        do {
            lifetime = try await callKakao(device)
        } catch {
            availability.recordFailure(error)
            return try await note(error, device)
        }
        availability.recordAcceptance()
        return try await confirm(device, lifetime)
    }

    /// Puts a device off that must wait for another one's withdrawal.
    func postpone(_ device: PendingDevice) async throws {
        try await store.postpone(device, by: .zero)
        signal.send()
    }

    private func callKakao(_ device: PendingDevice) async throws(KakaoError) -> TokenLifetime? {
        let key = device.key
        guard !device.isWithdrawn else {
            try await push.deregister(userID: key.userID, deviceID: key.deviceID, pushType: key.pushType)
            return nil
        }
        return try await push.register(
            userID: key.userID,
            deviceID: key.deviceID,
            pushType: key.pushType,
            pushToken: device.pushToken
        )
    }

    private func confirm(_ device: PendingDevice, _ lifetime: TokenLifetime?) async throws -> Result {
        var expiresAt: Date?
        var renewAt: Date?
        if case .days(let days) = lifetime {
            let now = Date()
            expiresAt = now + Double(days) * Self.secondsPerDay
            renewAt = renewal.date(after: now, lifetimeDays: days)
        }
        let isPending =
            device.isRepeat
            ? try await store.extend(device, expiresAt: expiresAt, renewAt: renewAt)
            : try await store.confirm(device, expiresAt: expiresAt, renewAt: renewAt)
        // Who has the token now may have waited for this withdrawal.
        if isPending || device.isWithdrawn { signal.send() }
        return lifetime.map { .registered($0) } ?? .deregistered
    }

    private func note(_ error: KakaoError, _ device: PendingDevice) async throws -> Result {
        switch error.disposition {
        case .retry, .wait, .halt:
            let delay = delay(after: device.attempts, error)
            try await store.postpone(device, by: delay)
            signal.send(after: delay)
            return .postponed
        case .invalid, .fail:
            guard !device.isWithdrawn else {
                // Kakao does not know the device, which is all that was asked for.
                return try await confirm(device, nil)
            }
            try await store.refuse(device)
            signal.send()
            return .refused(error)
        }
    }

    /// Doubling from one second to five minutes, a fifth more or less at random; longer if Kakao asks for it.
    private func delay(after attempts: Int, _ error: KakaoError) -> Duration {
        var delay = min(Duration.seconds(1 << min(attempts, 10)), Self.longestDelay)
        if error.disposition != .retry { delay = max(delay, .seconds(60)) }
        delay = delay * Double.random(in: 0.8...1.2)
        return max(delay, min(error.retryAfter ?? .zero, .seconds(3600)))
    }
}
