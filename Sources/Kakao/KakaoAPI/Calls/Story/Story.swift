package import Schemas

/// A story of a user in KakaoStory.
package struct Story: Sendable, Equatable {
    /// The maximum length of the text, in characters.
    package static let maximumContent = 2048
    /// Kakao does not document the length of an id. Those of its samples have about 20 characters.
    static let maximumID = 128

    /// The id: `_2Kq9L.FqUKiQ1vUw0`, of the user and of the story.
    package var id: String
    /// The address of the story's page.
    package var url: String
    /// `NOTE`, `PHOTO` or `NOT_SUPPORTED`.
    package var mediaType: String?
    /// The time of the post: `2022-04-11T01:45:28Z`.
    package var createdAt: String
    package var commentCount: Int64
    package var likeCount: Int64
    package var content: String?
    /// `PUBLIC`, `FRIEND` or `ONLY_ME`; `nil` in a list of stories.
    package var permission: String?
    /// The images of a photo story.
    package var media: [Media]?
    /// The comments; `nil` in a list of stories.
    package var comments: [Comment]?
    /// The moods that friends have left; `nil` in a list of stories.
    package var likes: [Like]?

    package init(
        id: String,
        url: String,
        mediaType: String? = nil,
        createdAt: String,
        commentCount: Int64 = 0,
        likeCount: Int64 = 0,
        content: String? = nil,
        permission: String? = nil,
        media: [Media]? = nil,
        comments: [Comment]? = nil,
        likes: [Like]? = nil
    ) {
        self.id = id
        self.url = url
        self.mediaType = mediaType
        self.createdAt = createdAt
        self.commentCount = commentCount
        self.likeCount = likeCount
        self.content = content
        self.permission = permission
        self.media = media
        self.comments = comments
        self.likes = likes
    }

    /// The addresses of an image in several sizes.
    package struct Media: Sendable, Equatable {
        package let original: String?
        /// 1280 pixels wide.
        package let xlarge: String?
        /// 720 pixels wide.
        package let large: String?
        /// 240 pixels wide.
        package let medium: String?
        /// 160 pixels wide.
        package let small: String?

        package init(original: String?, xlarge: String?, large: String?, medium: String?, small: String?) {
            self.original = original
            self.xlarge = xlarge
            self.large = large
            self.medium = medium
            self.small = small
        }

        fileprivate static let record = Record<Media>(
            .optional("original", \.original, .text, "The image as it was uploaded."),
            .optional("xlarge", \.xlarge, .text, "The image, 1280 pixels wide."),
            .optional("large", \.large, .text, "The image, 720 pixels wide."),
            .optional("medium", \.medium, .text, "The image, 240 pixels wide."),
            .optional("small", \.small, .text, "The image, 160 pixels wide."),
            make: Media.init
        )
    }

    /// A user who has left a comment or a mood.
    package struct Actor: Sendable, Equatable {
        /// The nickname in KakaoStory.
        package let displayName: String
        package var thumbnailURL: String?

        fileprivate static let kind = Record<Actor>(
            .required("display_name", \.displayName, .text, "The nickname in KakaoStory."),
            .optional("profile_thumbnail_url", \.thumbnailURL, .text, "The small profile image; may be empty."),
            make: Actor.init
        )
        .kind("StoryActor")
    }

    package struct Comment: Sendable, Equatable {
        package let text: String
        package let writer: Actor

        package static let record = Record<Comment>(
            .required("text", \.text, .text, "The text."),
            .required("writer", \.writer, Actor.kind, "The user who wrote it."),
            make: Comment.init
        )
    }

    /// A mood that a user has left.
    package struct Like: Sendable, Equatable {
        /// `LIKE`, `COOL`, `HAPPY`, `SAD`, `CHEER_UP` or `NOT_DEFINED`.
        package let emotion: String
        package let actor: Actor

        package static let record = Record<Like>(
            .optional(
                "emotion",
                { @Sendable like -> String? in like.emotion },
                .text,
                "The mood: `LIKE`, `COOL`, `HAPPY`, `SAD`, `CHEER_UP` or `NOT_DEFINED`."
            ),
            // A sample of Kakao's Android SDK has this name.
            .optional(
                "emoticon",
                { @Sendable _ -> String? in nil },
                .text,
                "Another name of `emotion`, in some responses."
            ),
            .required("actor", \.actor, Actor.kind, "The user who left it."),
            make: { Like(emotion: $0 ?? $1 ?? "NOT_DEFINED", actor: $2) }
        )
    }

    package static let record = Record<Story>(
        .required("id", \.id, .text, "The id."),
        .required("url", \.url, .text, "The address of the story's page."),
        .optional("media_type", \.mediaType, .text, "`NOTE`, `PHOTO` or `NOT_SUPPORTED`."),
        .required("created_at", \.createdAt, .text, "The time of the post."),
        .required("comment_count", \.commentCount, .count, "The number of comments."),
        .required("like_count", \.likeCount, .count, "The number of moods."),
        .optional("content", \.content, .text, "The text."),
        .optional(
            "permission",
            \.permission,
            .text,
            "The audience: `PUBLIC`, `FRIEND` or `ONLY_ME`; absent in a list of stories."
        ),
        .optional("media", \.media, Media.record.kind("StoryMedia").array, "The images of a photo story."),
        .optional(
            "comments",
            \.comments,
            Comment.record.kind("StoryComment").array,
            "The comments; absent in a list of stories."
        ),
        .optional(
            "likes",
            \.likes,
            Like.record.kind("StoryLike").array,
            "The moods; absent in a list of stories."
        ),
        make: Story.init
    )

    static let kind = record.kind("KakaoStory")

    static let example = Story(
        id: "_2Kq9L.FqUKiQ1vUw0",
        url: "https://story.kakao.com/hong/FqUKiQ1vUw0",
        mediaType: "NOTE",
        createdAt: "2022-04-11T01:45:28Z",
        commentCount: 1,
        likeCount: 1,
        content: "This cafe is really awesome!",
        permission: "PUBLIC",
        comments: [Comment(text: "I agree", writer: Actor(displayName: "라이언"))],
        likes: [Like(emotion: "LIKE", actor: Actor(displayName: "라이언"))]
    )
}
