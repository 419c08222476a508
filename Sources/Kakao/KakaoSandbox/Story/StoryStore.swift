import JSON
import KakaoAPI
import Locking

/// What KakaoStory knows of the app's users.
final class StoryStore: Sendable {
    private let users = Locked<[Int64: User]>([:])

    /// Returns a user. All users of the app use KakaoStory, until a control says otherwise.
    func user(_ userID: Int64) -> User { update(userID) { $0 } }

    /// Changes a user, and returns the result of the change.
    @discardableResult
    func update<Result, Failure: Error>(
        _ userID: Int64,
        _ change: (inout User) throws(Failure) -> Result
    ) throws(Failure) -> Result {
        try users.withLock { users throws(Failure) in try change(&users[userID, default: User(id: userID)]) }
    }
}

extension StoryStore {
    /// A story as it was posted.
    struct Post: Sendable {
        var story: Story
        var options = StoryPostOptions()
        /// The web page of a story with a link.
        var linkInfo: JSONObject?
    }

    /// A user of KakaoStory.
    struct User: Sendable {
        /// Kakao documents pages of about 18 stories.
        private static let pageSize = 18
        private static let maximumPosts = 10_000
        private static let maximumImages = 10_000

        let id: Int64
        var isStoryUser = true
        /// The stories, the oldest first.
        private(set) var posts: [Post] = []
        /// The order of the stories by their ids, also of those that were deleted.
        private var numbers: [String: Int] = [:]
        private var lastNumber = 0
        /// The uploaded images by their paths.
        private(set) var images: [String: StoryImage] = [:]

        init(id: Int64) {
            self.id = id
        }

        /// The address of the user's page.
        var permalink: String { "https://story.kakao.com/\(Self.name(id))" }

        private static func name(_ id: Int64) -> String { "_" + String(id, radix: 36) }

        /// Returns a story.
        ///
        /// - Throws: Error -605 if the user has no such story.
        func post(_ id: String) throws(KakaoRefusal) -> Post {
            guard let post = posts.first(where: { $0.story.id == id }) else { throw Self.unknownID }
            return post
        }

        /// Changes a story, if the user has it.
        mutating func update(_ id: String, _ change: (inout Story) -> Void) {
            guard let index = posts.firstIndex(where: { $0.story.id == id }) else { return }
            change(&posts[index].story)
        }

        /// Returns the stories that were posted before one, or the last ones, as a list shows them.
        ///
        /// - Throws: Error -605 if the user has had no story with this id.
        func page(before lastID: String?) throws(KakaoRefusal) -> [Story] {
            var end = Int.max
            if let lastID, !lastID.isEmpty {
                guard let number = numbers[lastID] else { throw Self.unknownID }
                end = number
            }
            return posts.reversed().lazy.filter { numbers[$0.story.id] ?? 0 < end }.prefix(Self.pageSize).map(\.listed)
        }

        /// Posts a story, and returns its id.
        ///
        /// - Throws: Error -1 if there are too many stories for the sandbox.
        mutating func post(
            _ mediaType: MediaType,
            _ content: String?,
            media: [Story.Media]? = nil,
            linkInfo: JSONObject? = nil,
            _ options: StoryPostOptions
        ) throws(KakaoRefusal) -> StoryPostAnswer {
            guard numbers.count < Self.maximumPosts else { throw Self.full("\(Self.maximumPosts) stories") }
            let name = String(lastNumber + 1, radix: 36)
            let story = Story(
                id: "\(Self.name(id)).\(name)",
                url: "\(permalink)/\(name)",
                mediaType: mediaType.rawValue,
                createdAt: WallClock.text(unixMilliseconds: WallClock.unixMilliseconds),
                content: content,
                permission: (options.permission ?? .everyone).inStory,
                media: media,
                comments: [],
                likes: []
            )
            add(Post(story: story, options: options, linkInfo: linkInfo))
            return StoryPostAnswer(id: story.id)
        }

        private mutating func add(_ post: Post) {
            lastNumber += 1
            numbers[post.story.id] = lastNumber
            posts.append(post)
        }

        /// Replaces all stories.
        ///
        /// - Parameter stories: The stories, the newest first.
        mutating func setStories(_ stories: [Story]) {
            posts = []
            numbers = [:]
            for story in stories.reversed() { add(Post(story: story)) }
        }

        /// - Throws: Error -605 if the user has no such story.
        mutating func delete(_ id: String) throws(KakaoRefusal) {
            guard let index = posts.firstIndex(where: { $0.story.id == id }) else { throw Self.unknownID }
            posts.remove(at: index)
        }

        /// Stores images, and returns their paths.
        ///
        /// - Throws: Error -1 if there are too many images for the sandbox.
        mutating func upload(_ headers: [ImageHeader]) throws(KakaoRefusal) -> [String] {
            guard images.count + headers.count <= Self.maximumImages else {
                throw Self.full("\(Self.maximumImages) images")
            }
            return headers.map { header in
                let image = StoryImage(header, of: id, number: images.count + 1)
                images[image.path] = image
                return image.path
            }
        }

        /// Replaces the uploaded images.
        mutating func setImages(_ images: [StoryImage]) {
            self.images = Dictionary(images.map { ($0.path, $0) }) { first, _ in first }
        }

        private static func full(_ limit: String) -> KakaoRefusal {
            .full("the sandbox stores at most \(limit) of a user.")
        }

        private static let unknownID = KakaoRefusal.error(.invalidStoryID, "invalid story id.")
    }

    /// The kinds of stories.
    enum MediaType: String {
        case note = "NOTE"
        case photo = "PHOTO"
        /// Kakao's documents have no word for a story with a link.
        case link = "NOT_SUPPORTED"
    }
}

extension StoryStore.Post {
    /// The story as a list shows it: without permission, comments and moods.
    fileprivate var listed: Story {
        var story = story
        story.permission = nil
        story.comments = nil
        story.likes = nil
        return story
    }
}
