/// A text with a link.
public struct TextTemplate: Codable, Hashable, Sendable {
    /// At most 200 characters are shown.
    public var text: String
    /// What a tap opens.
    public var link: Link
    /// The title of the default button, which opens the link. ``buttons`` replace it.
    public var buttonTitle: String?
    /// At most two.
    public var buttons: [Button]?

    /// Creates a text with a link.
    public init(text: String, link: Link, buttonTitle: String? = nil, buttons: [Button]? = nil) {
        self.text = text
        self.link = link
        self.buttonTitle = buttonTitle
        self.buttons = buttons
    }

    enum CodingKeys: String, CodingKey, CaseIterable {
        case text, link, buttons
        case buttonTitle = "button_title"
    }
}
