import HTTPServer
import HTTPTypes
import JSON
import KakaoAPI
import Schemas

/// The controls `/sandbox/users/{user_id}/story`, which show and change what KakaoStory knows of a user
/// (`docs/sandbox.md`).
struct StoryControl: Sendable {
    let stories: StoryStore

    func addRoutes(to router: inout Router) {
        let path = "/sandbox/users/{user_id}/story"
        router.control(.get, path) { Self.response(stories.user(try $0.userID)) }
        router.control(.post, path, set)
        router.control(.get, "\(path)/{id}") { try Self.response(stories.user($0.userID), $0) }
        router.control(.post, "\(path)/{id}", setReactions)
    }

    /// Changes KakaoStory's data about a user. Members that are absent from the input stay as they are.
    private func set(_ request: Request) throws -> Response {
        let userID = try request.userID
        let input = try ControlInput(bodyOf: request, known: ["story_user", "stories", "images"])
        let isStoryUser = try input.bool("story_user")
        let newStories = try input.records("stories", Story.record)
        let images = try input.strings("images")?.map { path throws(Problem) in
            guard let image = StoryImage(path: path) else {
                let allowed = "a path with an extension and a size, such as /a/img.png?width=600&height=400"
                throw ControlInput.problem("images", "has an invalid path", allowed: allowed)
            }
            return image
        }
        return stories.update(userID) { user in
            if let isStoryUser { user.isStoryUser = isStoryUser }
            if let newStories { user.setStories(newStories) }
            if let images { user.setImages(images) }
            return Self.response(user)
        }
    }

    /// Sets the comments and the moods of a story.
    private func setReactions(_ request: Request) throws -> Response {
        let userID = try request.userID
        let input = try ControlInput(bodyOf: request, known: ["comments", "likes"])
        let comments = try input.records("comments", Story.Comment.record)
        let likes = try input.records("likes", Story.Like.record)
        return try stories.update(userID) { user throws(Problem) in
            user.update(request.pathParameter("id")) { story in
                if let comments { (story.comments, story.commentCount) = (comments, Int64(comments.count)) }
                if let likes { (story.likes, story.likeCount) = (likes, Int64(likes.count)) }
            }
            return try Self.response(user, request)
        }
    }

    private static func response(_ user: StoryStore.User) -> Response {
        .json {
            $0.member("user_id", String(user.id))
            $0.member("story_user", user.isStoryUser)
            $0.array("stories") { array in
                for post in user.posts.reversed() { array.element { Story.record.write(post.story, &$0) } }
            }
            $0.member("images", user.images.keys.sorted())
        }
    }

    /// Returns the story that the path names, and what it was posted with.
    private static func response(_ user: StoryStore.User, _ request: Request) throws(Problem) -> Response {
        let id = request.pathParameter("id")
        guard let post = user.posts.first(where: { $0.story.id == id }) else {
            throw Problem(.notFound, "The user has no story with this id.")
        }
        return .json {
            $0.member("story") { Story.record.write(post.story, &$0) }
            $0.member("options") { StoryPostOptions.record.write(post.options, &$0) }
            $0.member("link_info", post.linkInfo)
        }
    }
}
