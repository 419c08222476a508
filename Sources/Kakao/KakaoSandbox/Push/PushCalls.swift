import JSON
import KakaoAPI

/// The key of a device among the devices of a user.
struct DeviceKey: Equatable, Sendable {
    let deviceID: String
    let pushType: PushType
}

/// A send with validated parameters.
struct PushSend: Sendable {
    let version: PushVersion
    let userIDs: [Int64]
    let message: PushMessage
    /// Whether the message carries its own tokens, and registered tokens are ignored.
    let isBypass: Bool
}

/// The Push API of both versions, on the ledger.
struct PushCalls: Sendable {
    let settings: KakaoSandboxSettings
    let ledger: Ledger
    let feedback: FailureFeedback

    func add(to server: inout KakaoCallServer) {
        server.on(RegisterPushToken.self, users: \.users, refusal: invalidDevice) {
            call,
            _ throws(KakaoRefusal) in
            let key = try key(call.version, call.userID, call.deviceID, call.pushType, call.pushToken)
            try ledger.register(key, userID: call.userID, pushToken: call.pushToken)
            return settings.tokenLifetimeDays == -1 ? .never : .days(settings.tokenLifetimeDays)
        }
        server.on(DeregisterPushToken.self, users: \.users, refusal: invalidDevice) {
            call,
            _ throws(KakaoRefusal) in
            let key = try key(call.version, call.userID, call.deviceID, call.pushType, nil)
            ledger.deregister(key, userID: call.userID)
        }
        server.on(RetrievePushTokens.self, users: \.users) { call, _ throws(KakaoRefusal) in
            guard !call.users.isEmpty else { throw .badParameter("uuid or uuids is required") }
            return call.users.flatMap { tokens(of: $0, call.version) }
        }
        server.on(SendPush.self, users: \.userIDs) { call, _ throws(KakaoRefusal) in
            let message = try PushMessage(call.message.json, version: call.version, markerField: settings.markerField)
            let isBypass = call.bypass ?? false
            if isBypass, message.apns?.pushToken == nil, message.android?.pushToken == nil {
                throw .badParameter("push_token is required in push_message when bypass is true")
            }
            let send = PushSend(version: call.version, userIDs: call.userIDs, message: message, isBypass: isBypass)
            for failure in ledger.carryOut(send) { feedback.report(failure) }
        }
    }

    private func tokens(of userID: Int64, _ version: PushVersion) -> [RetrievePushTokens.Token] {
        ledger.tokens(of: userID).map { token in
            RetrievePushTokens.Token(
                userID: userID,
                deviceID: token.key.deviceID,
                pushType: token.key.pushType.name(in: version),
                pushToken: token.pushToken,
                createdAt: WallClock.text(unixMilliseconds: token.createdAt),
                updatedAt: WallClock.text(unixMilliseconds: token.updatedAt)
            )
        }
    }

    private func key(
        _ version: PushVersion,
        _ userID: Int64,
        _ deviceID: String,
        _ typeName: String,
        _ pushToken: String?
    ) throws(KakaoRefusal) -> DeviceKey {
        guard let pushType = PushType(name: typeName, version: version) else {
            throw invalidDevice(user: String(userID), device: deviceID, type: typeName, token: pushToken)
        }
        return DeviceKey(deviceID: deviceID, pushType: pushType)
    }

    private func invalidDevice(_ values: JSONObject) -> KakaoRefusal {
        invalidDevice(
            user: values["uuid"]?.string,
            device: values["device_id"]?.string,
            type: values["push_type"]?.string,
            token: values["push_token"]?.string
        )
    }

    /// Returns an error with Kakao's own message, which contains the push token.
    private func invalidDevice(user: String?, device: String?, type: String?, token: String?) -> KakaoRefusal {
        let app = "app-\(settings.appID)"
        let parameters = [
            "appName=\(app)", "uid=\(user ?? "null")", "did=\(device ?? "null")", "pushType=\(type ?? "null")",
            "pushToken=\(token ?? "null")",
        ]
        return .badParameter("[\(app)] Invalid Kpusher Param. ( \(parameters.joined(separator: ", ")) )")
    }
}

extension RegisterPushToken {
    fileprivate var users: [Int64] { [userID] }
}

extension DeregisterPushToken {
    fileprivate var users: [Int64] { [userID] }
}

extension RetrievePushTokens {
    /// The users whose tokens are wanted, in either parameter.
    fileprivate var users: [Int64] { userIDs ?? userID.map { [$0] } ?? [] }
}
