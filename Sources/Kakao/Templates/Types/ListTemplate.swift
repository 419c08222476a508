/// Two or three contents below a header.
public struct ListTemplate: Codable, Hashable, Sendable {
    /// At most 200 characters are shown.
    public var headerTitle: String
    /// What a tap on the header opens.
    public var headerLink: Link
    /// Two or three.
    public var contents: [Content]
    /// The title of the default button, which opens the header's link. ``buttons`` replace it.
    public var buttonTitle: String?
    /// At most two.
    public var buttons: [Button]?

    /// Creates a list.
    public init(
        headerTitle: String,
        headerLink: Link,
        contents: [Content],
        buttonTitle: String? = nil,
        buttons: [Button]? = nil
    ) {
        self.headerTitle = headerTitle
        self.headerLink = headerLink
        self.contents = contents
        self.buttonTitle = buttonTitle
        self.buttons = buttons
    }

    enum CodingKeys: String, CodingKey, CaseIterable {
        case contents, buttons
        case headerTitle = "header_title"
        case headerLink = "header_link"
        case buttonTitle = "button_title"
    }
}
