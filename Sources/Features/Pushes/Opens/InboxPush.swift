import Endpoints
import FoundationEssentials
import JSON
import KakaoAPI
import Schemas

/// A push as the app of a user whom it was sent to sees it: nothing of other users, operators or devices.
struct InboxPush: Sendable {
    let id: UUID
    let sentAt: Date
    let openedAt: Date?
    /// Whether it is unknown if Kakao has accepted it for this user.
    let isUncertain: Bool
    /// The notifications as JSON: see ``InboxNotification/json(of:)``.
    let notifications: [UInt8]

    static let shape = Shape<InboxPush>(
        "InboxPush",
        [
            .member("id", .uuid, "The id of the push, for `reportPushOpened`.", \.id),
            .member(
                "sent_at",
                .time,
                "When sending began to any of its users. A push that appears later may have an earlier time.",
                \.sentAt
            ),
            .nullable("opened_at", .time, "When the user has opened it, as far as apps have reported it.", \.openedAt),
            .member(
                "uncertain",
                .boolean,
                "Whether it is unknown if Kakao has accepted the push for this user. The user may or may not have received it.",
                \.isUncertain
            ),
            .member("notifications", .notifications, "What phones show, for each platform that the message addresses.")
            {
                JSONFragment($0.notifications)
            },
        ]
    )
}

/// What an app needs of a message to show it in its inbox.
struct InboxNotification: Sendable {
    let phone: PhoneView
    let customField: JSONObject?

    static let shape = Shape<InboxNotification>(
        "InboxNotification",
        [
            .member("platform", .text(oneOf: PushType.allCases.map { $0.name(in: .v2) }), "The platform.") {
                $0.phone.platform.name(in: .v2)
            },
            .nullable("title", .text, "The title; null without one, or if the app translates it.", \.phone.title?.text),
            .nullable("text", .text, "The text, as the title.", \.phone.text?.text),
            .nullable(
                "link",
                .text,
                "The first address in the message, to which a tap may lead.",
                \.phone.links.first?.url
            ),
            .nullable(
                "custom_field",
                .object,
                "`custom_field` of the message as the operator wrote it, with push tokens masked.",
                \.customField
            ),
        ]
    )

    /// Returns the notifications of a message as a JSON array. It does not depend on settings that a reload can change, nor does it have
    /// push tokens.
    ///
    /// - Parameter kakaoVersion: The version of Kakao's API that the server calls.
    static func json(of message: PushMessage, kakaoVersion: PushVersion) -> [UInt8] {
        let object = message.object.maskingPushTokens
        let conditions = PushPreview.Conditions(kakaoVersion: kakaoVersion, format: message.version)
        let notifications = PushPreview(object, conditions).phones.map { phone in
            InboxNotification(phone: phone, customField: object[phone.member]?["custom_field"]?.object)
        }
        var json = JSONWriter()
        shape.kind.array.write(notifications, &json)
        return json.bytes
    }
}

extension Kind where Value == JSONFragment {
    /// Notifications as JSON text.
    fileprivate static var notifications: Kind {
        .output(.array(of: InboxNotification.shape.kind.output)) { $1.value($0) }
    }
}
