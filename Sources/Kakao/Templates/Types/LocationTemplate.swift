/// A content with a place. KakaoTalk adds a button that shows the place on a map.
public struct LocationTemplate: Codable, Hashable, Sendable {
    /// The address of the place, which Kakao looks up on its map.
    public var address: String
    /// The name of the place on the map.
    public var addressTitle: String?
    /// The picture, the texts and the link.
    public var content: Content
    /// Counts below the content.
    public var social: Social?
    /// The title of the default button, which opens the content's link. ``buttons`` replace it.
    public var buttonTitle: String?
    /// At most one, since the second button is that of the map.
    public var buttons: [Button]?

    /// Creates a content with a place.
    public init(
        address: String,
        addressTitle: String? = nil,
        content: Content,
        social: Social? = nil,
        buttonTitle: String? = nil,
        buttons: [Button]? = nil
    ) {
        self.address = address
        self.addressTitle = addressTitle
        self.content = content
        self.social = social
        self.buttonTitle = buttonTitle
        self.buttons = buttons
    }

    enum CodingKeys: String, CodingKey, CaseIterable {
        case address, content, social, buttons
        case addressTitle = "address_title"
        case buttonTitle = "button_title"
    }
}
