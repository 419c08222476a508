/// A picture with texts and a link. At least one of title, description and picture is needed.
public struct Content: Codable, Hashable, Sendable {
    /// The title.
    public var title: String?
    /// The text below the title.
    public var description: String?
    /// The URL of the picture: `https`, at least 200 by 200 pixels, readable by Kakao's servers.
    public var imageURL: String?
    /// In pixels.
    public var imageWidth: Int?
    /// In pixels.
    public var imageHeight: Int?
    /// What a tap opens.
    public var link: Link

    /// Creates a content.
    public init(
        title: String? = nil,
        description: String? = nil,
        imageURL: String? = nil,
        imageWidth: Int? = nil,
        imageHeight: Int? = nil,
        link: Link
    ) {
        self.title = title
        self.description = description
        self.imageURL = imageURL
        self.imageWidth = imageWidth
        self.imageHeight = imageHeight
        self.link = link
    }

    enum CodingKeys: String, CodingKey, CaseIterable {
        case title, description, link
        case imageURL = "image_url"
        case imageWidth = "image_width"
        case imageHeight = "image_height"
    }
}

/// The addresses that a part of a message opens. On a phone, execution params open the app; without them or without the
/// app, the mobile URL and then the web URL is opened. Domains must be registered at Kakao.
public struct Link: Codable, Hashable, Sendable {
    /// The address on a computer, and on a phone without a mobile URL.
    public var webURL: String?
    /// The address on a phone.
    public var mobileWebURL: String?
    /// The query that the Android app is opened with: `key=value&key2=value2`.
    public var androidExecutionParams: String?
    /// The query that the iOS app is opened with.
    public var iosExecutionParams: String?

    /// Creates a link from its addresses.
    public init(
        webURL: String? = nil,
        mobileWebURL: String? = nil,
        androidExecutionParams: String? = nil,
        iosExecutionParams: String? = nil
    ) {
        self.webURL = webURL
        self.mobileWebURL = mobileWebURL
        self.androidExecutionParams = androidExecutionParams
        self.iosExecutionParams = iosExecutionParams
    }

    /// A link to one address on all devices.
    ///
    /// - Parameter executionParams: The query that the app is opened with, where it is installed.
    public init(_ url: String, executionParams: String? = nil) {
        self.init(
            webURL: url,
            mobileWebURL: url,
            androidExecutionParams: executionParams,
            iosExecutionParams: executionParams
        )
    }

    enum CodingKeys: String, CodingKey, CaseIterable {
        case webURL = "web_url"
        case mobileWebURL = "mobile_web_url"
        case androidExecutionParams = "android_execution_params"
        case iosExecutionParams = "ios_execution_params"
    }
}

/// A button below a message.
public struct Button: Codable, Hashable, Sendable {
    /// The title of the button that KakaoTalk adds to a message without one.
    package static let defaultTitle = "자세히 보기"

    /// The title.
    public var title: String
    /// What a tap opens.
    public var link: Link

    /// Creates a button.
    public init(_ title: String, _ link: Link) {
        self.title = title
        self.link = link
    }

    enum CodingKeys: String, CodingKey, CaseIterable {
        case title, link
    }
}

/// Counts below a content. At most three are shown, in this order.
public struct Social: Codable, Hashable, Sendable {
    /// The number of likes.
    public var likeCount: Int?
    /// The number of comments.
    public var commentCount: Int?
    /// The number of shares.
    public var sharedCount: Int?
    /// The number of views.
    public var viewCount: Int?
    /// The number of subscribers.
    public var subscriberCount: Int?

    /// Creates counts.
    public init(
        likeCount: Int? = nil,
        commentCount: Int? = nil,
        sharedCount: Int? = nil,
        viewCount: Int? = nil,
        subscriberCount: Int? = nil
    ) {
        self.likeCount = likeCount
        self.commentCount = commentCount
        self.sharedCount = sharedCount
        self.viewCount = viewCount
        self.subscriberCount = subscriberCount
    }

    enum CodingKeys: String, CodingKey, CaseIterable {
        case likeCount = "like_count"
        case commentCount = "comment_count"
        case sharedCount = "shared_count"
        case viewCount = "view_count"
        case subscriberCount = "subscriber_count"
    }
}
