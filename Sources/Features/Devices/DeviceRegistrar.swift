import Endpoints
import EventLoop
import FoundationEssentials
import HTTPServer
import HTTPTypes
import Identity
import KakaoAPI
import Postgres
import Runtime

/// Registers and withdraws devices: stores a change, calls Kakao, stores Kakao's response.
///
/// A change is committed before the call to Kakao, and is pending until Kakao's response is committed. Meanwhile the
/// request that stored it holds a lease on the device, so that calls about one device are sequential. Changes left
/// pending by an outage or by the end of a server are completed by the ``PendingDeviceWorker`` of any server.
struct DeviceRegistrar: Sendable {
    /// The stored outcome of a call to Kakao.
    enum Outcome: Sendable {
        /// Kakao has registered the token, and keeps it for this lifetime.
        case registered(TokenLifetime)
        /// Kakao no longer has the token.
        case deregistered
        /// Kakao is unavailable or does not accept calls at present. The call is retried later.
        case postponed
        /// Kakao has rejected the registration permanently.
        case rejected(KakaoError)
    }

    private static let secondsPerDay = 86_400.0
    private static let retryDelay = RetryDelay(first: .seconds(1), longest: .seconds(300))

    let store: DeviceStore
    let kakao: KakaoClient
    let renewal: RenewalTime
    /// Whether user ids are Kakao's, so that a user who unlinks the app is the owner of devices here.
    let hasKakaoUserIDs: Bool
    /// Wakes the ``PendingDeviceWorker``.
    let signal: Signal
    let availability: KakaoAvailability
    let counts: LoopCounts<DeviceCount>.Own
    /// The limit of new devices that users' apps add, which all loops share. Each may leave a row until Kakao has deregistered
    /// the device, and a webhook.
    let newDevices: RequestLimit<Int64>
    let known: LoopValue<KnownDevices>.Copy
    let lifetimes: LastLifetimes
    let webhooks: WebhookNotice

    // MARK: Requests

    /// Registers a device. Devices that lose their token to it are deregistered at Kakao first.
    ///
    /// - Returns: How long Kakao keeps the token; `nil` if the registration is stored and pending.
    /// - Throws: ``Problem`` with Kakao's error text if Kakao rejects the registration, 429 if the app registers too many new devices;
    ///   ``PostgresError``.
    func register(_ registration: DeviceRegistration) async throws -> TokenLifetime? {
        var registration = registration
        // Kakao's events have Kakao's user ids, so they say nothing about users with ids of the service's own.
        if !hasKakaoUserIDs { registration.authorizedAt = nil }
        var pending: ArraySlice<PendingDevice>
        if let repetition = try await store.registerAgain(registration) {
            pending = repetition[...]
        } else {
            try await chargeNewDevice(registration)
            let stored = try await store.register(registration)
            known.record(stored.changes, of: registration)
            pending = stored.pending[...]
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
                // Kakao still has the token for another device: this registration has to wait.
                for waiting in pending { try await postpone(waiting) }
                return nil
            case .rejected(let error):
                throw Problem.refusedByKakao("the registration", error)
            }
        }
        return nil
    }

    /// Withdraws a device. Returns whether Kakao has deregistered it; if not, the deregistration is pending.
    ///
    /// A device that is unknown here counts as a new one of an app: it is stored until Kakao has confirmed that it does not have it either.
    /// The withdrawal of a known device has no limit.
    ///
    /// - Parameter keyName: The name of the operator key; `nil` for a withdrawal by the app.
    /// - Throws: ``Problem`` 429 if the app withdraws too many devices that are unknown here; ``PostgresError``.
    func withdraw(_ key: DeviceKey, by keyName: String?) async throws -> Bool {
        var withdrawal = WithdrawDevice(key: key, keyName: keyName, addsUnknown: keyName != nil)
        var stored = try await store.pool.write(withdrawal).first
        if stored == nil, !withdrawal.addsUnknown {
            try takeNewDevice(ofUser: key.userID)
            withdrawal.addsUnknown = true
            stored = try await store.pool.write(withdrawal).first
        }
        guard let stored else { throw PostgresError(.decoding) }
        known.record(stored.change)
        guard let device = stored.pending, case .deregistered = try await synchronize(device) else { return false }
        return true
    }

    // MARK: The limit of new devices

    /// Counts a registration by an app that is no repetition of a confirmed one.
    ///
    /// - Throws: ``Problem`` 429, unless the same registration is stored and pending: an app that registers at each start must
    ///   succeed however long Kakao is unavailable.
    private func chargeNewDevice(_ registration: DeviceRegistration) async throws {
        guard registration.keyName == nil else { return }
        let key = registration.key
        do {
            try takeNewDevice(ofUser: key.userID)
        } catch {
            let stored = try await store.pool.read(FindDevices(userID: key.userID, deviceID: key.deviceID))
            guard stored.contains(where: { $0.key == key && $0.pushToken == registration.pushToken }) else {
                throw error
            }
        }
    }

    private func takeNewDevice(ofUser userID: Int64) throws {
        guard let wait = newDevices.take(from: userID) else { return }
        throw Problem.tooManyRequests("Too many new devices of this user.", wait: wait)
    }

    // MARK: One device

    /// Calls Kakao about a leased device and stores the response, which releases the lease.
    ///
    /// - Throws: ``PostgresError`` if the response cannot be stored. The lease then expires, and Kakao is called again.
    func synchronize(_ device: PendingDevice) async throws -> Outcome {
        if device.isWithdrawn { webhooks.send() }
        guard availability.admits(device.circuit) else {
            return try await postpone(device, for: availability.delay(of: device.circuit))
        }
        switch await callKakao(device) {
        case .success(let lifetime):
            return try await confirm(device, lifetime)
        case .failure(let error):
            switch error.disposition {
            case .retry, .unrecognized, .wait, .halt:
                return try await postpone(device, for: delay(after: device, error))
            case .invalid, .fail, .logIn, .consent:
                guard !device.isWithdrawn else { return try await synchronize(refused: device, error) }
                try await store.reject(device)
                webhooks.send()
                signal.send()
                return .rejected(error)
            }
        }
    }

    /// Asks Kakao whether it still has the token of a device that it refuses to deregister. A token that is forgotten here
    /// while Kakao has it would show the notifications of one person on the phone of another.
    private func synchronize(refused device: PendingDevice, _ error: KakaoError) async throws -> Outcome {
        let key = device.key
        if let listed = try? await tokensAtKakao(ofUsers: [key.userID]) {
            guard listed.contains(where: { $0.deviceID == key.deviceID && $0.pushType == key.pushType }) else {
                return try await confirm(device, nil)
            }
            counts.add(to: .refusedDeregistration)
        }
        return try await postpone(device, for: delay(after: device, error))
    }

    /// Releases a leased device to the worker, which waits until the withdrawals of its token are confirmed.
    func postpone(_ device: PendingDevice) async throws {
        _ = try await postpone(device, for: .zero)
    }

    private func postpone(_ device: PendingDevice, for delay: Duration) async throws -> Outcome {
        try await store.pool.write(PostponeDevice(device: device, delay: delay))
        signal.send(after: delay)
        return .postponed
    }

    /// Calls Kakao. Returns the lifetime of a registered token, or `nil` for a deregistered one.
    private func callKakao(_ device: PendingDevice) async -> Result<TokenLifetime?, KakaoError> {
        let key = device.key
        do throws(KakaoError) {
            guard !device.isWithdrawn else {
                try await kakao.call(
                    DeregisterPushToken(
                        version: kakao.settings.pushVersion,
                        userID: key.userID,
                        deviceID: key.deviceID,
                        pushType: key.pushType
                    )
                )
                return .success(nil)
            }
            return .success(
                try await kakao.call(
                    RegisterPushToken(
                        version: kakao.settings.pushVersion,
                        userID: key.userID,
                        deviceID: key.deviceID,
                        pushType: key.pushType,
                        pushToken: device.pushToken
                    )
                )
            )
        } catch {
            return .failure(error)
        }
    }

    private func confirm(_ device: PendingDevice, _ lifetime: TokenLifetime?) async throws -> Outcome {
        let now = Date()
        var expiresAt: Date?
        if let lifetime { lifetimes.record(lifetime, of: device.key.pushType) }
        if case .days(let days) = lifetime { expiresAt = now + Double(days) * Self.secondsPerDay }
        let renewAt = expiresAt.flatMap { renewal.date(after: now, expiresAt: $0) }
        let isPending = try await store.confirm(
            DeviceConfirmation(device: device, expiresAt: expiresAt, renewAt: renewAt)
        )
        // A registration of the token may have waited for this withdrawal.
        if isPending || device.isWithdrawn { signal.send() }
        return lifetime.map { .registered($0) } ?? .deregistered
    }

    /// Returns the delay before the next call.
    ///
    /// It doubles from 1 s to 5 min, with a jitter of 20 %. It is about 60 s or more while a quota is used up, and longer if the
    /// response requests it (`Retry-After`), up to an hour. While such calls are in vain, one of them finds out when that changes.
    private func delay(after device: PendingDevice, _ error: KakaoError) -> Duration {
        switch error.disposition {
        case .halt, .unrecognized:
            return availability.delay(of: device.circuit)
        case .retry, .wait, .invalid, .fail, .logIn, .consent:
            let minimum = error.disposition == .wait ? Duration.seconds(60) : .zero
            let delay = Self.retryDelay.after(device.attempts + 1, atLeast: minimum)
            return max(delay, min(error.retryAfter ?? .zero, .seconds(3600)))
        }
    }
}

extension PendingDevice {
    /// The circuit of the call that the device waits for.
    var circuit: KakaoCircuit { isWithdrawn ? .deregistrations : .registrations }
}

extension DeviceRegistrar {
    /// The problems of ``register(_:)``.
    static let problems: [ProblemKind] = [.refusedByKakao, .badGateway]
}

extension ProblemKind {
    static let conflict = ProblemKind(.conflict, "conflict", "A concurrent request has changed the object.")
}
