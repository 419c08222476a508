internal import EventLoop
internal import HTTPServer
internal import HTTPTypes
internal import KakaoAPI

/// What an app asks for, and waits for.
extension DeviceRegistrar {
    /// Stores a registration, then tells Kakao of it, and before that of what it displaces.
    ///
    /// - Returns: How long Kakao keeps the token; `nil` if Kakao is yet to hear of it, and when the device was withdrawn at the same
    ///   moment.
    /// - Throws: ``Problem`` in Kakao's words when Kakao refuses it; ``PostgresError``.
    func register(_ registration: DeviceRegistration) async throws -> TokenLifetime? {
        var unsettled = try await store.register(registration)[...]
        while let device = unsettled.popFirst() {
            guard !device.mustWait else {
                try await postpone(device)
                return nil
            }
            switch try await settle(device) {
            case .registered(let lifetime):
                return lifetime
            case .deregistered:
                continue
            case .postponed:
                // The token's former user is still registered at Kakao: its new user has to wait for that.
                for waiting in unsettled { try await postpone(waiting) }
                return nil
            case .refused(let error):
                throw Problem.refused(error)
            }
        }
        return nil
    }

    /// Takes a device back, then tells Kakao.
    ///
    /// - Returns: Whether Kakao has forgotten it; if not, it is told in the background.
    func withdraw(_ key: DeviceKey) async throws -> Bool {
        guard let device = try await store.withdraw(key), case .deregistered = try await settle(device) else {
            return false
        }
        return true
    }
}

extension Problem {
    /// What Kakao refused is the caller's to mend, in Kakao's words.
    fileprivate static func refused(_ error: KakaoError) -> Problem {
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
