import JSON
import KakaoAPI

/// The message of a send, parsed as far as the sandbox needs.
struct PushMessage: Sendable {
    /// The part of a message for the devices of one platform.
    struct Payload: Sendable {
        /// `for_apns`, `for_gcm` or `for_fcm` of the request, as compact JSON.
        let json: [UInt8]
        /// The device's token, for sends with `bypass`.
        let pushToken: String?
        /// The URL for failure reports (with version 1 Android only).
        let returnURL: String?
        /// Whether the message is not sent to a device (Android only).
        let isDryRun: Bool
    }

    /// The limit of Android's `custom_field`: "push notification of size 4KB can be sent".
    private static let maximumCustomFieldBytes = 4096

    let apns: Payload?
    let android: Payload?
    /// The value of the marker field in `custom_field`, by which reached users are counted; empty if there is none.
    let marker: String

    /// Parses a message.
    ///
    /// - Parameter markerField: The member of `custom_field` that holds the marker, as a string or a number.
    /// - Throws: ``KakaoRefusal`` unless `text` is a JSON object whose documented members are valid.
    init(_ text: [UInt8], version: PushVersion, markerField: String) throws(KakaoRefusal) {
        let json: JSONValue
        do { json = try JSONValue(parsing: text) } catch {
            throw .badParameter("push_message is not JSON: \(error)")
        }
        guard case .object(let message) = json else { throw .badParameter("push_message must be a JSON object") }
        let apnsMember = try Self.object(PushVersion.apnsMember, of: message)
        let androidMember = try Self.object(version.androidMember, of: message)
        func returnURL(_ name: String, _ member: JSONObject) -> String? {
            version.membersWithReturnURL.contains(name) ? member["return_url"]?.string : nil
        }
        apns = try apnsMember.map { member throws(KakaoRefusal) in
            _ = try Self.object("custom_field", of: member)
            return Payload(member, pushType: .apns, reportsTo: returnURL(PushVersion.apnsMember, member))
        }
        android = try androidMember.map { member throws(KakaoRefusal) in
            let custom = try Self.object("custom_field", of: member)
            if let custom, text.count > Self.maximumCustomFieldBytes,
                JSONValue.object(custom).bytes().count > Self.maximumCustomFieldBytes
            {
                throw .badParameter("custom_field must be at most 4 KB")
            }
            return Payload(member, pushType: .fcm, reportsTo: returnURL(version.androidMember, member))
        }
        marker =
            [apnsMember, androidMember].lazy.compactMap { member in
                member?["custom_field"]?[markerField].flatMap { $0.string ?? $0.number?.text }
            }
            .first ?? ""
    }

    func payload(for pushType: PushType) -> Payload? {
        switch pushType {
        case .apns: apns
        case .fcm: android
        }
    }

    /// Returns a member that is an object; `nil` if it is missing or `null`.
    private static func object(_ name: String, of object: JSONObject) throws(KakaoRefusal) -> JSONObject? {
        switch object[name] {
        case .object(let member): return member
        case .none, .null: return nil
        case .bool, .number, .string, .array: throw .badParameter("\(name) must be a JSON object")
        }
    }
}

extension PushMessage.Payload {
    fileprivate init(_ member: JSONObject, pushType: PushType, reportsTo returnURL: String?) {
        json = JSONValue.object(member).bytes()
        pushToken = member["push_token"]?.string
        self.returnURL = returnURL
        isDryRun = pushType == .fcm && member["dry_run"]?.bool == true
    }
}
