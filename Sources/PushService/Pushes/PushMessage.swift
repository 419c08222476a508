internal import JSON
internal import KakaoAPI

/// Kakao's `push_message`: a JSON object, passed on as the operator wrote it, in the words of one version of the Push API.
struct PushMessage: Sendable {
    /// The JSON text.
    let text: String
    /// The version whose words it uses: `for_gcm` in v1, `for_fcm` in v2.
    let version: PushVersion

    init(text: String, version: PushVersion) {
        self.text = text
        self.version = version
    }

    init(_ object: JSONObject, version: PushVersion) {
        text = String(decoding: JSONValue.object(object).bytes(), as: UTF8.self)
        self.version = version
    }

    /// The phones that it speaks to, as devices name them; all of them when it names none, so that Kakao decides.
    var platforms: [String] {
        let object = (try? JSONValue(parsing: Array(text.utf8)))?.object
        let named = [
            ("for_apns", PushType.apns), (PushVersion.v1.androidMember, .fcm), (PushVersion.v2.androidMember, .fcm),
        ]
        let addressed = named.filter { object?.has($0.0) == true }.map(\.1)
        return (addressed.isEmpty ? PushType.allCases : addressed).map { $0.name(in: .v2) }
    }

    /// The message as Kakao gets it.
    ///
    /// - Parameters:
    ///   - version: The version that is spoken to Kakao: the member for Android is renamed if the message is in the other's words.
    ///   - returnURL: Where Kakao is to report failed tokens; put into the member for Android, unless it names an address itself.
    func rendered(for version: PushVersion, returnURL: String?) -> [UInt8] {
        guard version != self.version || returnURL != nil, let value = try? JSONValue(parsing: Array(text.utf8)),
            var message = value.object
        else { return Array(text.utf8) }
        message.rename(self.version.androidMember, to: version.androidMember)
        if let returnURL, var android = message[version.androidMember]?.object, android["return_url"] == nil {
            android["return_url"] = .string(returnURL)
            message[version.androidMember] = .object(android)
        }
        return JSONValue.object(message).bytes()
    }
}

extension JSONObject {
    /// Whether there is something under a name; `null` is nothing.
    func has(_ name: String) -> Bool { self[name].map { !$0.isNull } ?? false }
}
