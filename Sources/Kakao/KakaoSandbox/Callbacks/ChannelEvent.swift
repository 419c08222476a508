import HTTPClient
import HTTPServer
import HTTPTypes
import JSON

/// A person adds or blocks a KakaoTalk channel that is connected to the app (Kakao, "KakaoTalk Channel: webhook").
package struct ChannelEvent: Sendable {
    /// A person, as Kakao names one to the push server.
    package enum Person: Sendable {
        /// A user who has agreed that the app knows.
        case user(Int64)
        /// A person who has not agreed.
        case openID(String)
    }

    package enum Kind: String, Sendable, CaseIterable {
        case added, blocked
    }

    package let person: Person
    package var kind = Kind.added
    /// The channel, as in its address.
    package var channelPublicID = "_ZeUTxl"
    /// The time as Kakao sends it; `nil` for now.
    package var updatedAt: String?
    /// Whether the members have the names that older apps get.
    package var hasOlderNames = false
    /// `X-Kakao-Resource-ID`; `nil` for a random one. Use the same one twice to simulate a duplicate event.
    package var resourceID: String?
    /// The body that is sent in place of the event, whatever it is.
    package var raw: String?
    /// The push server's base URL; `nil` for the one in the settings.
    package var callbackURL: String?
    /// The time limit for the push server's response. Kakao waits for 3 seconds.
    package var timeout = Duration.seconds(3)

    package init(_ person: Person) {
        self.person = person
    }

    /// Reads the body of `POST /sandbox/channel-events`.
    ///
    /// - Throws: ``Problem`` that names the field.
    init(bodyOf request: Request) throws(Problem) {
        let input = try ControlInput(
            bodyOf: request,
            known: [
                "user_id", "open_id", "event", "channel_public_id", "updated_at", "older_names", "resource_id", "raw",
                "callback_url",
            ]
        )
        if let openID = try input.string("open_id") {
            self.init(.openID(openID))
        } else {
            self.init(.user(try input.requiredInteger("user_id", in: 1...Int64.max)))
        }
        if let kind: Kind = try input.choice("event") { self.kind = kind }
        let channels = AppDefinition.channels.map(\.publicID)
        let channel = try input.member("channel_public_id", "one of \(channels.joined(separator: ", "))") { value in
            value.string.flatMap { channels.contains($0) ? $0 : nil }
        }
        if let channel { channelPublicID = channel }
        updatedAt = try input.string("updated_at")
        hasOlderNames = try input.bool("older_names") ?? false
        resourceID = try input.string("resource_id")
        raw = try input.string("raw")
        callbackURL = try input.string("callback_url")
    }
}

/// Calls the push server once when a person adds or blocks a channel, without retries, and keeps the relations of users.
struct ChannelEventCall: Sendable {
    let sender: CallbackSender
    let users: AppUsers

    /// Changes the relation of a user, and sends the event to the push server once.
    func send(_ event: ChannelEvent) async -> CallbackOutcome {
        guard var request = sender.request("/kakao/channel", at: event.callbackURL, timeout: event.timeout) else {
            return .unknownURL
        }
        if case .user(let userID) = event.person {
            let kind: ChannelRelation.Kind = event.kind == .added ? .added : .blocked
            users.update(userID) { $0.talk.channels[event.channelPublicID] = ChannelRelation(kind: kind) }
        }
        let resourceID = event.resourceID ?? LinkCallback.identifier()
        request.method = .post
        request.headerFields[.kakaoResourceID] = resourceID
        request.headerFields[.contentType] = "application/json;charset=UTF-8"
        request.body = event.raw.map { Array($0.utf8) } ?? Self.members(of: event).bytes()
        var outcome = CallbackOutcome(isSent: true, id: resourceID)
        await sender.send(request, &outcome)
        return outcome
    }

    private static func members(of event: ChannelEvent) -> JSONValue {
        var members: JSONObject = ["event": .string(event.kind.rawValue)]
        switch event.person {
        case .user(let userID):
            members["id"] = .string(String(userID))
            members["id_type"] = "app_user_id"
        case .openID(let id):
            members["id"] = .string(id)
            members["id_type"] = "open_id"
        }
        let searchID = AppDefinition.channels.first { $0.publicID == event.channelPublicID }?.searchID
        let prefix = event.hasOlderNames ? "plus_friend" : "channel"
        members["\(prefix)_public_id"] = .string(event.channelPublicID)
        if let searchID { members["\(prefix)_uuid"] = .string(searchID) }
        let now = WallClock.unixMilliseconds
        if event.hasOlderNames, event.updatedAt == nil {
            members["timestamp"] = .integer(now)
        } else {
            members["updated_at"] = .string(event.updatedAt ?? WallClock.text(unixMilliseconds: now))
        }
        return .object(members)
    }
}
