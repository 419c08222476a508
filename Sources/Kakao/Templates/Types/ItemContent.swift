/// A profile, a title with a picture, and a list of items with a sum.
public struct ItemContent: Codable, Hashable, Sendable {
    /// At most 16 characters are shown.
    public var profileText: String?
    /// The URL of the picture beside the profile.
    public var profileImageURL: String?
    /// At most 24 characters are shown.
    public var titleImageText: String?
    /// The URL of the square picture beside the title.
    public var titleImageURL: String?
    /// At most 14 characters are shown.
    public var titleImageCategory: String?
    /// At most five.
    public var items: [Item]?
    /// The title of the sum; at most 6 characters are shown.
    public var sum: String?
    /// The sum; at most 11 characters are shown.
    public var sumOp: String?

    /// Creates an item content.
    public init(
        profileText: String? = nil,
        profileImageURL: String? = nil,
        titleImageText: String? = nil,
        titleImageURL: String? = nil,
        titleImageCategory: String? = nil,
        items: [Item]? = nil,
        sum: String? = nil,
        sumOp: String? = nil
    ) {
        self.profileText = profileText
        self.profileImageURL = profileImageURL
        self.titleImageText = titleImageText
        self.titleImageURL = titleImageURL
        self.titleImageCategory = titleImageCategory
        self.items = items
        self.sum = sum
        self.sumOp = sumOp
    }

    enum CodingKeys: String, CodingKey, CaseIterable {
        case items, sum
        case profileText = "profile_text"
        case profileImageURL = "profile_image_url"
        case titleImageText = "title_image_text"
        case titleImageURL = "title_image_url"
        case titleImageCategory = "title_image_category"
        case sumOp = "sum_op"
    }
}

/// A line of a list: a name and a value, such as a price. A line that lacks one of them is not shown.
public struct Item: Codable, Hashable, Sendable {
    /// At most 6 characters are shown.
    public var item: String
    /// At most 25 characters are shown: 14 on one line.
    public var itemOp: String

    /// Creates a line from its name and its value.
    public init(_ item: String, _ itemOp: String) {
        self.item = item
        self.itemOp = itemOp
    }

    enum CodingKeys: String, CodingKey, CaseIterable {
        case item
        case itemOp = "item_op"
    }
}
