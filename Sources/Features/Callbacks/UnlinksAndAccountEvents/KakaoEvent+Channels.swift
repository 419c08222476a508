import Channels
import Endpoints
import FoundationEssentials
import JSON
import Schemas

extension KakaoEvent {
    /// The type of an event about a KakaoTalk channel that does not say what has happened.
    static let unknownChannelType = "channel"

    /// What a person has done (Kakao, "KakaoTalk Channel: webhook", `event`).
    private enum ChannelEvent: String, CaseIterable, Sendable {
        case added, blocked

        var type: String { "channel_\(rawValue)" }

        var relation: ChannelChange.Relation {
            switch self {
            case .added: .added
            case .blocked: .blocked
            }
        }
    }

    /// Kakao's names for kinds of ids.
    private enum ChannelIDType: String, CaseIterable, Sendable {
        case appUserID = "app_user_id"
        case openID = "open_id"
    }

    /// The fields of an event about a channel, with the names that older apps get.
    static let channelFields: [any FieldDeclaration] = [
        event, personID, idType, channelPublicID, channelUUID, updatedAt, plusFriendPublicID, plusFriendUUID, timestamp,
    ]

    private static let event = Field.required("event", Kind<ChannelEvent>.choice, "What the person has done.")
    private static let personID = Field.required(
        "id",
        .anyText(.oneOf([.text(), .integer(1...Int64.max)]), "1 to 255 characters"),
        "The person, as `id_type` says."
    )
    private static let idType = Field.required(
        "id_type",
        Kind<ChannelIDType>.choice,
        "Whether the person is a user of the app, who has agreed to tell it, or an unknown person."
    )
    private static let channelPublicID = Field.optional(
        "channel_public_id",
        .text(1...64),
        "The channel, as in its address."
    )
    private static let channelUUID = Field.optional("channel_uuid", .text(1...255), "The search id of the channel.")
    private static let updatedAt = Field.optional("updated_at", .time, "When it happened.")
    private static let plusFriendPublicID = Field.optional(
        "plus_friend_public_id",
        .text(1...64),
        "The older name of `channel_public_id`."
    )
    private static let plusFriendUUID = Field.optional(
        "plus_friend_uuid",
        .text(1...255),
        "The older name of `channel_uuid`."
    )
    private static let timestamp = Field.optional(
        "timestamp",
        Kind<Int64>.integer(0...253_402_300_799_999),
        "In older apps, when it happened, in milliseconds since 1970."
    )

    /// Reads an event about a channel. One that does not say who, which channel, what or when changes no relation.
    ///
    /// Its user is `nil` for an `open_id`, even if that is all digits.
    init(channel call: Call) {
        let receivedAt = Date()
        var reader = KakaoCallReader(call)
        let event = reader.value(Self.event)
        let idType = reader.value(Self.idType)
        let person = reader.value(Self.personID)
        let (publicID, olderPublicID) = (reader.value(Self.channelPublicID), reader.value(Self.plusFriendPublicID))
        let (uuid, olderUUID) = (reader.value(Self.channelUUID), reader.value(Self.plusFriendUUID))
        let (updatedAt, milliseconds) = (reader.value(Self.updatedAt), reader.value(Self.timestamp))
        let happenedAt = updatedAt ?? milliseconds.map { Date(timeIntervalSince1970: Double($0) / 1000) }
        var userID: Int64?
        if idType == .appUserID, let person {
            userID = UserID.read(.string(person))
            if userID == nil { reader.reject() }
        }
        let isNamed = person.map { (1...255).contains($0.utf8.count) } ?? false
        if publicID ?? olderPublicID == nil || happenedAt == nil || !isNamed { reader.reject() }

        var payload = (try? JSONValue(parsing: call.undeclaredText))?.object ?? JSONObject()
        let members: [(String, String?)] = [
            ("id_type", idType?.rawValue),
            ("id", isNamed ? person : nil),
            (Self.channelPublicID.name, publicID ?? olderPublicID),
            (Self.channelUUID.name, uuid ?? olderUUID),
            (Self.updatedAt.name, happenedAt?.rfc3339Microseconds),
        ]
        for case let (name, text?) in members { payload[name] = .string(text.withoutNUL) }
        self.init(
            id: .v7(),
            // Each change has a time of its own, so that equal calls are repetitions.
            key: "channel \(reader.resourceID ?? reader.contentHash)",
            type: event?.type ?? Self.unknownChannelType,
            userID: userID,
            referrerType: nil,
            payload: JSONValue.object(payload).bytes(),
            raw: reader.raw,
            receivedAt: receivedAt
        )
    }

    /// The change of a relation to a channel that the event reports; `nil` for another event, and for one that leaves open who, which
    /// channel or when.
    var channelChange: ChannelChange? {
        guard let event = ChannelEvent.allCases.first(where: { $0.type == type }),
            let payload = try? JSONValue(parsing: payload),
            let idType = payload["id_type"]?.string.flatMap(ChannelIDType.init),
            let id = payload["id"]?.string,
            let channel = payload[Self.channelPublicID.name]?.string,
            let updatedAt = payload[Self.updatedAt.name]?.string.flatMap({ Date(rfc3339: $0) })
        else { return nil }
        let person: ChannelChange.Person
        switch idType {
        case .appUserID:
            guard let userID else { return nil }
            person = .user(userID)
        case .openID: person = .openID(id)
        }
        return ChannelChange(
            person: person,
            channelPublicID: channel,
            channelUUID: payload[Self.channelUUID.name]?.string,
            relation: event.relation,
            updatedAt: updatedAt
        )
    }
}
