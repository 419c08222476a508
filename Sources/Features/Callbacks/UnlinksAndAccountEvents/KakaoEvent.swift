import Endpoints
import FoundationEssentials
import HTTPServer
import HTTPTypes
import JSON
import Postgres
import Schemas
import ServiceKit

/// An event that Kakao reported about a user.
struct KakaoEvent: Sendable {
    /// The type of an unlink notice.
    static let unlinkType = "unlink"

    /// The server's own id, which sorts by the time of receipt.
    let id: UUID
    /// A key of at most 300 bytes that identifies the event. A duplicate of a stored event has no effect.
    let key: String
    /// ``unlinkType``, `channel_added`, `channel_blocked`, ``unknownChannelType``, or the URI that names the kind of an account event.
    let type: String
    /// The user that the event concerns; `nil` if it names none.
    let userID: Int64?
    /// The reason, in Kakao's words: `ACCOUNT_DELETE`, `UNLINK_FROM_APPS` and others. New values are possible.
    let referrerType: String?
    /// A JSON object: the other parameters of a notice, or all claims of a security event token.
    let payload: [UInt8]
    /// A notice as Kakao sent it; `nil` if all of it was understood.
    let raw: String?
    let receivedAt: Date

    /// The effect of this type of event on its user; `nil` for none. Types are compared exactly: a mistaken type would
    /// withdraw the devices of a user who has just joined.
    var userEventKind: UserEvent.Kind? {
        switch type {
        case Self.unlinkType, Self.oauth + "user-unlinked", Self.risc + "account-purged",
            Self.risc + "account-disabled":
            .left
        case Self.oauth + "tokens-revoked", Self.oauth + "token-revoked", Self.risc + "sessions-revoked":
            .tokensRevoked
        default:
            nil
        }
    }

    /// Returns the event as features see it, or `nil` if it has no effect.
    ///
    /// - Parameter time: When it happened, by the database's clock.
    func userEvent(at time: Date) -> UserEvent? {
        guard let userID, let kind = userEventKind else { return nil }
        return UserEvent(userID: userID, kind: kind, type: type, happenedAt: time)
    }

    private static let oauth = "https://schemas.openid.net/secevent/oauth/event-type/"
    private static let risc = "https://schemas.openid.net/secevent/risc/event-type/"
}

extension KakaoEvent {
    /// The fields of an unlink notice (Kakao Login, "Unlink webhook").
    static let unlinkFields: [any FieldDeclaration] = [appIDField, userIDField, referrerTypeField]

    private static let appIDField = Field.required(
        "app_id",
        .anyText(.oneOf([.integer(1...Int64.max), .text()]), "the number of the app"),
        "The app."
    )
    private static let userIDField = Field.required("user_id", .userID, "The user.")
    // Kakao calls only once, so an unexpected referrer type is no reason to reject the notice.
    private static let referrerTypeField = Field.optional("referrer_type", .anyText(.text(), "a text"), "The reason.")

    /// Reads an unlink notice. One without a user, or for another app than `appID`, names no user and has no effect.
    init(unlink call: Call, appID: String) {
        var reader = KakaoCallReader(call)
        let isOfApp = reader.value(Self.appIDField) == appID
        if !isOfApp { reader.reject() }
        let userID = reader.value(Self.userIDField)
        let referrerType = reader.value(Self.referrerTypeField)
        let id = UUID.v7()
        self.init(
            id: id,
            // Without a resource id, a duplicate cannot be distinguished from a second unlink.
            key: reader.resourceID.map { "\(Self.unlinkType) \($0)" } ?? id.lowercased,
            type: Self.unlinkType,
            userID: isOfApp ? userID : nil,
            referrerType: referrerType?.withoutNUL,
            payload: call.undeclaredText,
            raw: reader.raw,
            receivedAt: Date()
        )
    }
}

extension KakaoEvent {
    /// The members of an event in a response.
    static let shape = Shape<StoredCall<KakaoEvent>>(
        "Event",
        [
            .member("id", .uuid, "The id of the event, which sorts by the time of receipt.", \.call.id),
            .member(
                "type",
                .text,
                "`unlink`, `channel_added`, `channel_blocked`, or the URI of a kind of account event.",
                \.call.type
            ),
            .nullable("user_id", .userID, "The user.", \.call.userID),
            .nullable("referrer_type", .text, "The reason, in Kakao's words.", \.call.referrerType),
            .member(
                "payload",
                .objectText,
                "The other parameters of a notice of Kakao, or all claims of an account event."
            ) { JSONFragment($0.call.payload) },
            .member("malformed", .boolean, "Whether a part of the call was not understood.") { $0.call.raw != nil },
            .nullable("raw", .text, "What Kakao sent, if the call is malformed: its first 8 KiB.", \.call.raw),
            .member("received_at", .time, "When Kakao called.", \.call.receivedAt),
            .member("stored_at", .time, "When the event was stored.", \.storedAt),
        ]
    )
}

extension StoredCall<KakaoEvent> {
    static var columns: SQL { "id, key, type, user_id, referrer_type, payload, raw, received_at, stored_at" }

    /// Decodes ``columns``.
    init(_ column: inout ColumnCursor) throws {
        let event = try KakaoEvent(
            id: column.next(),
            key: column.next(),
            type: column.next(),
            userID: column.next(),
            referrerType: column.next(),
            payload: column.next(),
            raw: column.next(),
            receivedAt: column.next()
        )
        self.init(call: event, storedAt: try column.next())
    }
}
