internal import JSON

/// What a send carries, taken apart as far as the sandbox needs it.
struct PushMessage: Sendable {
    /// What devices of one platform get.
    struct Payload: Sendable {
        /// `for_apns`, `for_gcm` or `for_fcm` as it came, compact.
        let json: [UInt8]
        /// The device's token, when the caller keeps tokens itself (`bypass`).
        let pushToken: String?
        /// Where failures are reported to.
        let returnURL: String?
        /// Not to be sent on to a device (Android only).
        let isDryRun: Bool
    }

    /// `custom_field` of Android: "push notification of size 4KB can be sent".
    private static let maximumCustomFieldBytes = 4096

    let apns: Payload?
    let android: Payload?
    /// The value of the marker field in `custom_field`, by which the users reached are counted; empty without one.
    let marker: String

    /// - Parameter markerField: The member of `custom_field` that holds the marker, as a string or an integer.
    /// - Throws: ``KakaoRefusal`` unless `text` is a JSON object whose documented members have the documented form.
    init(_ text: String, version: PushVersion, markerField: String) throws(KakaoRefusal) {
        let json: JSONValue
        do { json = try JSONValue(parsing: text) } catch {
            throw .badParameter("push_message is not JSON: \(error)")
        }
        guard case .object(let message) = json else { throw .badParameter("push_message must be a JSON object") }
        let apnsMember = try Self.object(version.member(for: .apns), of: message)
        let androidMember = try Self.object(version.member(for: .android), of: message)
        apns = try apnsMember.map { member throws(KakaoRefusal) in
            _ = try Self.object("custom_field", of: member)
            return Payload(member, platform: .apns)
        }
        android = try androidMember.map { member throws(KakaoRefusal) in
            let custom = try Self.object("custom_field", of: member)
            if let custom, text.utf8.count > Self.maximumCustomFieldBytes,
                JSONValue.object(custom).bytes().count > Self.maximumCustomFieldBytes
            {
                throw .badParameter("custom_field must be at most 4 KB")
            }
            return Payload(member, platform: .android)
        }
        marker =
            [apnsMember, androidMember].lazy.compactMap { member in
                member?["custom_field"]?[markerField].flatMap { $0.string ?? $0.number?.text }
            }
            .first ?? ""
    }

    func payload(for platform: Platform) -> Payload? {
        switch platform {
        case .apns: apns
        case .android: android
        }
    }

    /// A member that is an object; `nil` if there is none.
    private static func object(_ name: String, of object: JSONObject) throws(KakaoRefusal) -> JSONObject? {
        switch object[name] {
        case .object(let member): return member
        case .none, .null: return nil
        case .bool, .number, .string, .array: throw .badParameter("\(name) must be a JSON object")
        }
    }
}

extension PushMessage.Payload {
    fileprivate init(_ member: JSONObject, platform: Platform) {
        json = JSONValue.object(member).bytes()
        pushToken = member["push_token"]?.string
        returnURL = platform == .android ? member["return_url"]?.string : nil
        isDryRun = platform == .android && member["dry_run"]?.bool == true
    }
}
