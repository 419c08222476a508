internal import EventLoop
internal import FoundationEssentials
internal import HTTPServer
internal import HTTPTypes
internal import KakaoAPI
internal import Logging
internal import Postgres

/// Registers and withdraws devices: stores a change, calls Kakao, stores Kakao's response.
///
/// A change is committed before Kakao is called, and pending until the response is committed. The request that stored it holds a lease on the
/// device meanwhile, so that calls about one device follow one another. Whatever is left pending, by an outage or the end of a server, is done by
/// the ``PendingDeviceWorker`` of any server.
struct DeviceRegistrar: Sendable {
    /// The outcome of a call to Kakao, as stored.
    enum Outcome: Sendable {
        /// Kakao keeps the token for this long.
        case registered(TokenLifetime)
        /// Kakao has no such token any more.
        case deregistered
        /// Kakao is unavailable or does not accept calls at present: the call is repeated later.
        case postponed
        /// Kakao rejects the registration for good.
        case rejected(KakaoError)
    }

    private static let secondsPerDay = 86_400.0
    private static let longestDelay = Duration.seconds(300)

    let store: DeviceStore
    let push: KakaoPushAPI
    let renewal: RenewalTime
    /// Wakes the ``PendingDeviceWorker``.
    let signal: Signal

    // MARK: Requests

    /// Registers a device, at Kakao after the devices that lose their token to it are deregistered there.
    ///
    /// - Returns: How long Kakao keeps the token; `nil` if the registration is stored and pending.
    /// - Throws: ``Problem`` in Kakao's words if Kakao rejects the registration; ``PostgresError``.
    func register(_ registration: DeviceRegistration) async throws -> TokenLifetime? {
        var pending: ArraySlice<PendingDevice>
        if let repetition = try await store.registerAgain(registration) {
            pending = repetition[...]
        } else {
            pending = try await store.register(registration)[...]
        }
        while let device = pending.popFirst() {
            guard !device.mustWait else {
                try await postpone(device)
                return nil
            }
            switch try await synchronize(device) {
            case .registered(let lifetime):
                return lifetime
            case .deregistered:
                continue
            case .postponed:
                // Kakao still has the token for its former user: its new user has to wait.
                for waiting in pending { try await postpone(waiting) }
                return nil
            case .rejected(let error):
                throw Problem.rejected(error)
            }
        }
        return nil
    }

    /// Withdraws a device. Returns whether Kakao has deregistered it; otherwise that is pending.
    func withdraw(_ key: DeviceKey) async throws -> Bool {
        guard let device = try await store.withdraw(key), case .deregistered = try await synchronize(device) else {
            return false
        }
        return true
    }

    // MARK: One device

    /// Calls Kakao about a leased device and stores the response, which releases the lease.
    ///
    /// - Throws: ``PostgresError`` if the response cannot be stored. The lease then expires, and Kakao is called again.
    func synchronize(_ device: PendingDevice) async throws -> Outcome {
        let response = await callKakao(device)
        switch response {
        case .success(let lifetime):
            return try await confirm(device, lifetime)
        case .failure(let error):
            switch error.disposition {
            case .retry, .wait, .halt:
                let delay = delay(after: device.attempts, error)
                try await store.postpone(device, by: delay)
                signal.send(after: delay)
                return .postponed
            case .invalid, .fail:
                // Kakao does not know the device: as good as deregistered.
                guard !device.isWithdrawn else { return try await confirm(device, nil) }
                try await store.reject(device)
                signal.send()
                return .rejected(error)
            }
        }
    }

    /// Leaves a leased device to the worker, which waits for the withdrawals of its token.
    func postpone(_ device: PendingDevice) async throws {
        try await store.postpone(device, by: .zero)
        signal.send()
    }

    /// Returns the lifetime of a registered token, `nil` for a deregistered one.
    private func callKakao(_ device: PendingDevice) async -> Result<TokenLifetime?, KakaoError> {
        let key = device.key
        do throws(KakaoError) {
            guard !device.isWithdrawn else {
                try await push.deregister(userID: key.userID, deviceID: key.deviceID, pushType: key.pushType)
                return .success(nil)
            }
            return .success(
                try await push.register(
                    userID: key.userID,
                    deviceID: key.deviceID,
                    pushType: key.pushType,
                    pushToken: device.pushToken
                )
            )
        } catch {
            return .failure(error)
        }
    }

    private func confirm(_ device: PendingDevice, _ lifetime: TokenLifetime?) async throws -> Outcome {
        var expiresAt: Date?
        var renewAt: Date?
        if case .days(let days) = lifetime {
            let now = Date()
            expiresAt = now + Double(days) * Self.secondsPerDay
            renewAt = renewal.date(after: now, lifetimeDays: days)
        }
        let isPending = try await store.confirm(
            DeviceConfirmation(device: device, expiresAt: expiresAt, renewAt: renewAt)
        )
        // A registration of the token may have waited for this withdrawal.
        if isPending || device.isWithdrawn { signal.send() }
        return lifetime.map { .registered($0) } ?? .deregistered
    }

    /// Doubles from one second to five minutes, with a jitter of a fifth; longer if Kakao asks for it.
    private func delay(after attempts: Int, _ error: KakaoError) -> Duration {
        var delay = min(Duration.seconds(1 << min(attempts, 10)), Self.longestDelay)
        if error.disposition != .retry { delay = max(delay, .seconds(60)) }
        delay = delay * Double.random(in: 0.8...1.2)
        return max(delay, min(error.retryAfter ?? .zero, .seconds(3600)))
    }
}

extension Problem {
    /// A registration that Kakao rejects, in Kakao's words.
    fileprivate static func rejected(_ error: KakaoError) -> Problem {
        guard case .refused(let status, let code, let message) = error.kind else {
            return Problem(.badGateway, "Kakao did not take the registration.")
        }
        return Problem(
            HTTPResponse.Status(code: (400..<500).contains(status) ? status : 400),
            code: code?.rawValue,
            kind: "refused-by-kakao",
            message.isEmpty ? "Kakao refuses the registration." : "Kakao refuses the registration: \(message)"
        )
    }
}
