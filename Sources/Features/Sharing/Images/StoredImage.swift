import Endpoints
import FoundationEssentials
import Schemas

/// An image that the server keeps for messages, without its bytes.
struct StoredImage: Sendable, Equatable {
    /// The copy of an image at Kakao.
    struct Copy: Sendable, Equatable {
        let url: String
        /// When Kakao deletes the copy.
        let expiresAt: Date
        /// Whether messages may be sent with it: it remains for as long as ``ImageStore/minimumLife``.
        let isFresh: Bool

        /// `nil` without an address at Kakao.
        init?(url: String?, expiresAt: Date?, isFresh: Bool) {
            guard let url, let expiresAt else { return nil }
            self.url = url
            self.expiresAt = expiresAt
            self.isFresh = isFresh
        }
    }

    let id: UUID
    let contentType: String
    /// In pixels.
    let width: Int32
    /// In pixels.
    let height: Int32
    /// In bytes.
    let size: Int64
    let createdAt: Date
    /// `nil` until Kakao has accepted the image.
    let copy: Copy?
    /// Whether a server uploads it now, or has failed to a moment ago.
    let isLeased: Bool

    static let shape = Shape<StoredImage>(
        "Image",
        [
            .member("id", .uuid, "Its id. In a template, `image:ID` stands for its address at Kakao.", \.id),
            .nullable("url", .text, "The address of Kakao's copy; null if Kakao has none.", \.copy?.url),
            .nullable("expires_at", .time, "When Kakao deletes its copy.", \.copy?.expiresAt),
            .member("content_type", .text, "The media type, by the content.", \.contentType),
            .member("bytes", .count, "The size in bytes.", \.size),
            .member("width", .count, "The width in pixels.") { Int64($0.width) },
            .member("height", .count, "The height in pixels.") { Int64($0.height) },
            .member("created_at", .time, "When it was stored first.", \.createdAt),
        ]
    )
}
