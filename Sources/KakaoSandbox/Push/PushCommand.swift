internal import HTTPServer

/// A call of the Push API with validated parameters.
enum PushCommand: Sendable {
    case register(DeviceKey, userID: Int64, pushToken: String)
    case tokens([Int64])
    case deregister(DeviceKey, userID: Int64)
    case send(PushSend)

    /// The users that the call names.
    var userIDs: [Int64] {
        switch self {
        case .register(_, let userID, _), .deregister(_, let userID): [userID]
        case .tokens(let userIDs): userIDs
        case .send(let send): send.userIDs
        }
    }
}

/// The key of a device among the devices of a user.
struct DeviceKey: Equatable, Sendable {
    let deviceID: String
    let platform: Platform
}

/// A send with validated parameters.
struct PushSend: Sendable {
    let version: PushVersion
    let userIDs: [Int64]
    let message: PushMessage
    /// Whether the message carries its own tokens, and registered tokens are ignored.
    let isBypass: Bool
}

/// The four calls of the Push API.
enum PushCall: String, CaseIterable, Sendable {
    case register, tokens, deregister, send

    /// Validates the parameters as documented.
    ///
    /// - Throws: ``KakaoRefusal`` with code -2 and a message like Kakao's.
    func parse(
        _ form: PushForm,
        version: PushVersion,
        settings: KakaoSandboxSettings
    ) throws(KakaoRefusal) -> PushCommand {
        switch self {
        case .register:
            let userID = try form.userID("uuid")
            let key = try deviceKey(form, version: version, settings: settings)
            guard let token = form["push_token"], !token.isEmpty else {
                throw invalidDevice(form, version: version, settings: settings)
            }
            return .register(key, userID: userID, pushToken: token)
        case .tokens:
            if let userIDs = try form.userIDs("uuids") { return .tokens(userIDs) }
            guard form["uuid"] != nil else { throw .badParameter("uuid or uuids is required") }
            return .tokens([try form.userID("uuid")])
        case .deregister:
            let userID = try form.userID("uuid")
            return .deregister(try deviceKey(form, version: version, settings: settings), userID: userID)
        case .send:
            return .send(try send(form, version: version, settings: settings))
        }
    }

    private func deviceKey(
        _ form: PushForm,
        version: PushVersion,
        settings: KakaoSandboxSettings
    ) throws(KakaoRefusal) -> DeviceKey {
        guard let deviceID = form["device_id"], (1...64).contains(deviceID.unicodeScalars.count),
            let type = form["push_type"], let platform = Platform(name: type, in: version)
        else { throw invalidDevice(form, version: version, settings: settings) }
        return DeviceKey(deviceID: deviceID, platform: platform)
    }

    /// Returns an error with Kakao's own message, which contains the push token.
    private func invalidDevice(_ form: PushForm, version: PushVersion, settings: KakaoSandboxSettings) -> KakaoRefusal {
        let app = "app-\(settings.appID)"
        let parameters = [
            "appName=\(app)", "uid=\(form["uuid"] ?? "null")", "did=\(form["device_id"] ?? "null")",
            "pushType=\(form["push_type"] ?? "null")", "pushToken=\(form["push_token"] ?? "null")",
        ]
        return .badParameter("[\(app)] Invalid Kpusher Param. ( \(parameters.joined(separator: ", ")) )")
    }

    private func send(
        _ form: PushForm,
        version: PushVersion,
        settings: KakaoSandboxSettings
    ) throws(KakaoRefusal) -> PushSend {
        guard let userIDs = try form.userIDs("uuids") else { throw .badParameter("uuids is required") }
        guard let text = form["push_message"] else { throw .badParameter("push_message is required") }
        let message = try PushMessage(text, version: version, markerField: settings.markerField)
        let isBypass = try form.bool("bypass")
        if isBypass, message.apns?.pushToken == nil, message.android?.pushToken == nil {
            throw .badParameter("push_token is required in push_message when bypass is true")
        }
        return PushSend(version: version, userIDs: userIDs, message: message, isBypass: isBypass)
    }
}
