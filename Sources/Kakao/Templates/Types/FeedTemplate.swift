/// A picture with a title, a description, counts and up to two buttons.
public struct FeedTemplate: Codable, Hashable, Sendable {
    /// The picture, the texts and the link.
    public var content: Content
    /// A profile and a list of items beside the content.
    public var itemContent: ItemContent?
    /// Counts below the content.
    public var social: Social?
    /// The title of the default button, which opens the content's link. ``buttons`` replace it.
    public var buttonTitle: String?
    /// At most two.
    public var buttons: [Button]?

    /// Creates a feed.
    public init(
        content: Content,
        itemContent: ItemContent? = nil,
        social: Social? = nil,
        buttonTitle: String? = nil,
        buttons: [Button]? = nil
    ) {
        self.content = content
        self.itemContent = itemContent
        self.social = social
        self.buttonTitle = buttonTitle
        self.buttons = buttons
    }

    enum CodingKeys: String, CodingKey, CaseIterable {
        case content, social, buttons
        case itemContent = "item_content"
        case buttonTitle = "button_title"
    }
}
