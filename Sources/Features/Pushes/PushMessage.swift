import Crypto
import JSON
import KakaoAPI
import Schemas

/// Kakao's `push_message`: a JSON object in the format of one version of the Push API, forwarded as the operator wrote
/// it.
struct PushMessage: Sendable {
    /// The JSON text.
    let text: String
    /// The version of its format: `for_gcm` in v1, `for_fcm` in v2.
    let version: PushVersion
}

extension PushMessage {
    init(_ object: JSONObject, version: PushVersion) {
        text = String(decoding: JSONValue.object(object).bytes(), as: UTF8.self)
        self.version = version
    }

    /// The message as JSON.
    var object: JSONObject { (try? JSONValue(parsing: Array(text.utf8)))?.object ?? JSONObject() }

    /// The SHA-256 of the text, in hexadecimal.
    var digest: String { SHA256Digest.of(text).hexadecimal }

    /// The push types that it addresses, by their stored names. If it addresses none, all of them, so that Kakao
    /// decides.
    var platforms: [String] {
        let object = object
        let named = [
            ("for_apns", PushType.apns), (PushVersion.v1.androidMember, .fcm), (PushVersion.v2.androidMember, .fcm),
        ]
        let addressed = named.filter { object.has($0.0) }.map(\.1)
        return (addressed.isEmpty ? PushType.allCases : addressed).map { $0.name(in: .v2) }
    }

    /// Returns the message as it is sent to Kakao.
    ///
    /// - Parameters:
    ///   - version: The version of Kakao's API. The member for Android is renamed if the message has the format of the
    ///     other version.
    ///   - returnURL: The URL to which Kakao reports failed tokens. It is added to each member for which Kakao documents
    ///     one, unless that has a `return_url` already.
    ///   - pushID: The member of `custom_field` with the push's id, which each member for a platform gets; `nil` for none.
    func rendered(for version: PushVersion, returnURL: String?, pushID: PushIDMember?) -> [UInt8] {
        guard version != self.version || returnURL != nil || pushID != nil,
            let value = try? JSONValue(parsing: Array(text.utf8)),
            var message = value.object
        else { return Array(text.utf8) }
        message.rename(self.version.androidMember, to: version.androidMember)
        for member in version.membersWithReturnURL {
            guard let returnURL, var part = message[member]?.object, part["return_url"] == nil else { continue }
            part["return_url"] = .string(returnURL)
            message[member] = .object(part)
        }
        if let pushID {
            for member in [PushVersion.apnsMember, version.androidMember] {
                if let part = message[member]?.object { message[member] = .object(pushID.added(to: part)) }
            }
        }
        return JSONValue.object(message).bytes()
    }
}

extension Kind where Value == PushMessage {
    /// A message in the format of either version of Kakao's API, which its members show.
    static var pushMessage: Kind {
        let (v1, v2) = (PushVersion.v1.androidMember, PushVersion.v2.androidMember)
        return .input(
            .object(havingAnyOf: ["for_apns", v1, v2], butNotAllOf: [v1, v2]).named("PushMessage"),
            allowed: "an object like Kakao's push_message, with for_apns, for_gcm or for_fcm, but not the last two"
        ) { value throws(InvalidValue) in
            guard let message = try value.structured().object,
                message.has("for_apns") || message.has(v1) || message.has(v2), !message.has(v1) || !message.has(v2)
            else { throw InvalidValue() }
            return PushMessage(message, version: .format(of: message))
        }
    }
}

extension PushVersion {
    /// Returns the version whose format a message has.
    static func format(of message: JSONObject) -> PushVersion { message.has(v2.androidMember) ? .v2 : .v1 }
}

extension JSONObject {
    private static let masked = JSONValue.string("***")

    /// The message without its push tokens, wherever they are.
    var maskingPushTokens: JSONObject {
        var object = self
        for (name, value) in members {
            object[name] = name == "push_token" && !value.isNull ? Self.masked : value.maskingPushTokens
        }
        return object
    }

    /// Returns whether the object has a member with this name that is not `null`.
    func has(_ name: String) -> Bool { self[name].map { !$0.isNull } ?? false }
}

extension JSONValue {
    fileprivate var maskingPushTokens: JSONValue {
        switch self {
        case .object(let object): .object(object.maskingPushTokens)
        case .array(let elements): .array(elements.map(\.maskingPushTokens))
        case .null, .bool, .number, .string: self
        }
    }
}
