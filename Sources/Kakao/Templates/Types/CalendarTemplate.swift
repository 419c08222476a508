/// An event or a public calendar of a KakaoTalk channel. KakaoTalk adds a button that adds it to the user's calendar.
public struct CalendarTemplate: Codable, Hashable, Sendable {
    /// The id of the event or the calendar, which must belong to a channel that is connected to the app.
    public var id: String
    /// What the id names.
    public var idType: IDType
    /// The picture, the texts and the link.
    public var content: Content
    /// At most one, since the other button adds the event.
    public var buttons: [Button]?

    /// What the id of a calendar message names.
    public enum IDType: String, CaseIterable, Codable, Sendable {
        case event, calendar
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
