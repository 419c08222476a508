import HTTPTypes
import Schemas

/// Returns what Kakao reads of a web page (Open Graph), for a story with a link. (Kakao, "Kakao Story: iOS", "Posting link
/// story".)
///
/// Error -604 means that Kakao cannot read the page.
package struct RetrieveLinkInfo: KakaoCall {
    package typealias Answer = LinkInfo

    /// The address of the page.
    package let url: String

    package static let operation = KakaoOperation<Self>(
        "story_linkinfo",
        [.get],
        "/v1/api/story/linkinfo",
        .story,
        [.userToken],
        "Returns what Kakao reads of a web page, for a story with a link.",
        parameters: Record(
            .required("url", \.url, .text(1...2048), "The address of the page."),
            make: Self.init
        ),
        answer: .json(
            LinkInfo.record.kind("StoryLinkInfo"),
            example: LinkInfo(
                url: "https://www.example.com/cakes",
                requestedURL: "https://example.com/cakes",
                host: "www.example.com",
                title: "Cakes",
                images: ["https://www.example.com/cake.png"],
                description: "Cakes for every day.",
                section: "",
                type: "website",
                siteName: "Example"
            )
        )
    )
}

/// A web page as Kakao has read it.
package struct LinkInfo: Sendable, Equatable {
    /// The address, after redirections.
    package let url: String?
    /// The address that was asked for.
    package let requestedURL: String?
    package let host: String?
    package let title: String?
    /// The addresses of up to three images.
    package let images: [String]?
    package let description: String?
    /// The section of the site; may be empty.
    package let section: String?
    /// The kind of content: `video`, `music`, `book`, `article`, `profile`, `website`.
    package let type: String?
    package let siteName: String?

    package init(
        url: String?,
        requestedURL: String?,
        host: String?,
        title: String?,
        images: [String]?,
        description: String?,
        section: String?,
        type: String?,
        siteName: String?
    ) {
        self.url = url
        self.requestedURL = requestedURL
        self.host = host
        self.title = title
        self.images = images
        self.description = description
        self.section = section
        self.type = type
        self.siteName = siteName
    }

    static let record = Record<LinkInfo>(
        .optional("url", \.url, .text, "The address of the page, after redirections."),
        .optional("requested_url", \.requestedURL, .text, "The address that was asked for."),
        .optional("host", \.host, .text, "The host."),
        .optional("title", \.title, .text, "The title."),
        .optional("image", \.images, Kind<String>.text.array, "The addresses of up to three images."),
        .optional("description", \.description, .text, "The description."),
        .optional("section", \.section, .text, "The section of the site; may be empty."),
        .optional(
            "type",
            \.type,
            .text,
            "The kind of content: `video`, `music`, `book`, `article`, `profile` or `website`."
        ),
        .optional("site_name", \.siteName, .text, "The name of the site."),
        make: LinkInfo.init
    )
}
