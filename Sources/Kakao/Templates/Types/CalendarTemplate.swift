/// A public event or a subscribable calendar of a KakaoTalk channel. KakaoTalk adds a button that adds it to the user's calendar.
public struct CalendarTemplate: Codable, Hashable, Sendable {
    /// The id of the event or the calendar, which must belong to a channel that is connected to the app.
    ///
    /// Kakao's calls of Talk Calendar return them: for ``IDType/event``, `event_id` of `/v2/api/calendar/public/create/event`; for
    /// ``IDType/calendar``, `id` in the list of `/v2/api/calendar/subscribable/calendars`. Events and calendars of a user have ids, too,
    /// which a message cannot name.
    public var id: String
    /// What the id names.
    public var idType: IDType
    /// The picture, the texts and the link.
    public var content: Content
    /// At most one, since the other button adds the event.
    public var buttons: [Button]?

    /// What the id of a calendar message names.
    public enum IDType: String, CaseIterable, Codable, Sendable {
        /// A public event of a channel.
        case event
        /// A calendar of a channel to which users can subscribe.
        case calendar
    }

    /// Creates an event or a public calendar.
    public init(id: String, idType: IDType, content: Content, buttons: [Button]? = nil) {
        self.id = id
        self.idType = idType
        self.content = content
        self.buttons = buttons
    }

    enum CodingKeys: String, CodingKey, CaseIterable {
        case id, content, buttons
        case idType = "id_type"
    }
}
