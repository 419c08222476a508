import HTTPClient
import HTTPTypes
import JSON
import KakaoSandbox
import Testing

@testable import KakaoAPI

/// KakaoStory's calls, by the client that the server has.
@Suite struct StoryCallTests {
    private static let control = "/sandbox/users/7/story"
    private static let gif = Array("GIF89a".utf8) + [30, 0, 20, 0, 0, 0, 0]

    /// Runs `body` with a sandbox and a token of user 7, who has agreed to some scopes.
    private static func withStory(
        scopes: [JSONValue] = ["story_publish", "story_read"],
        _ body: (Fixture, KakaoCredential) async throws -> Void
    ) async throws {
        try await withSandbox { fixture in
            let token = try fixture.token(of: 7)
            try fixture.sandbox.setUser(7, ["scopes": .array(scopes)])
            try await body(fixture, token)
        }
    }

    private static func file(_ bytes: [UInt8]) -> KakaoUpload {
        KakaoUpload(fileName: "a.bin", contentType: "application/octet-stream", bytes: bytes)
    }

    // MARK: Posts

    @Test("A posted note is in the list and can be read with its audience, until it is deleted")
    func note() async throws {
        try await Self.withStory { fixture, token in
            let options = StoryPostOptions(permission: .friends, isSharingEnabled: true, iosExecutionParams: "a=1")
            let posted = try await fixture.kakao.call(PostNote(content: "Hi\n!", options: options), as: token)
            let id = try #require(posted.id)
            let story = try await fixture.kakao.call(RetrieveStory(id: id), as: token)
            #expect(story.content == "Hi\n!")
            #expect(story.mediaType == "NOTE")
            #expect(story.permission == "FRIEND")
            #expect(story.createdAt.hasSuffix("Z"))
            #expect(story.url.hasPrefix("https://story.kakao.com/_7/"))
            #expect([story.commentCount, story.likeCount] == [0, 0])
            #expect(story.comments == [] && story.likes == [])
            let listed = try await fixture.kakao.call(RetrieveStories(), as: token)
            #expect(listed.map(\.id) == [id])
            #expect(listed[0].permission == nil && listed[0].comments == nil && listed[0].likes == nil)
            let shown = try await fixture.control(.get, "\(Self.control)/\(id)")
            #expect(
                shown.json?["options"] == ["permission": "F", "enable_share": true, "ios_exec_param": "a=1"]
            )
            // Another user has none of it.
            let other = KakaoCredential.userToken(try #require(fixture.sandbox.accessToken(of: 8)))
            try fixture.sandbox.setUser(8, ["scopes": ["story_read"]])
            #expect(try await fixture.kakao.call(RetrieveStories(), as: other).isEmpty)
            #expect(try await fixture.refusalCode(of: RetrieveStory(id: id), as: other) == "400 -605")
            #expect(try await fixture.refusalCode(of: DeleteStory(id: id), as: other) == "400 -605")

            try await fixture.kakao.call(DeleteStory(id: id), as: token)
            #expect(try await fixture.kakao.call(RetrieveStories(), as: token).isEmpty)
            #expect(try await fixture.refusalCode(of: RetrieveStory(id: id), as: token) == "400 -605")
            #expect(try await fixture.refusalCode(of: DeleteStory(id: id), as: token) == "400 -605")
        }
    }

    @Test("A photo story has uploaded images, in five sizes, in the order of the post")
    func photo() async throws {
        try await Self.withStory { fixture, token in
            let files = [Self.gif, Self.gif, Self.gif].map { Self.file($0) }
            let paths = try await fixture.kakao.call(UploadStoryImages(), as: token, uploads: files)
            #expect(paths == (1...3).map { "/dn/7/\($0)/img.gif?width=30&height=20" })
            let call = PostPhoto(images: [paths[2], paths[0]])
            let id = try #require(try await fixture.kakao.call(call, as: token).id)
            let story = try await fixture.kakao.call(RetrieveStory(id: id), as: token)
            #expect(story.mediaType == "PHOTO")
            #expect(story.permission == "PUBLIC")
            #expect(story.content == nil)
            let image = "https://story.kakaocdn.net/dn/7/3/img"
            #expect(
                story.media?.first
                    == Story.Media(
                        original: "\(image).gif?width=30&height=20",
                        xlarge: "\(image)_xl.jpg?width=1280&height=853",
                        large: "\(image)_l.jpg?width=720&height=480",
                        medium: "\(image)_m.jpg?width=240&height=160",
                        small: "\(image)_s.jpg?width=160&height=106"
                    )
            )
            #expect(story.media?.count == 2)
            #expect(try await fixture.kakao.call(RetrieveStories(), as: token).first?.media == story.media)
            let unknown = PostPhoto(images: [paths[0], "/dn/7/4/img.gif?width=30&height=20"])
            #expect(try await fixture.refusalCode(of: unknown, as: token) == "400 -2")
        }
    }

    @Test("An upload takes up to five images of up to 10 MB each")
    func uploads() async throws {
        try await Self.withStory { fixture, token in
            let largest = Self.file(Self.gif + [UInt8](repeating: 0, count: (10 << 20) - Self.gif.count))
            let tooLarge = Self.file(Self.gif + [UInt8](repeating: 0, count: 10 << 20))
            let small = Self.file(Self.gif)
            for (files, result) in [
                ([], "400 -2"), ([largest], "accepted"), ([small, tooLarge], "400 -602"),
                ([small, Self.file([1, 2, 3])], "400 -911"), (Array(repeating: small, count: 5), "accepted"),
                (Array(repeating: small, count: 6), "400 -606"),
            ] {
                #expect(try await fixture.refusalCode(of: UploadStoryImages(), as: token, uploads: files) == result)
            }
            // A rejected upload stores nothing.
            let stored = try await fixture.control(.get, Self.control).json?["images"]?.array
            #expect(stored?.count == 6)
        }
    }

    @Test("A page is described from its address, and its description can be posted")
    func link() async throws {
        try await Self.withStory { fixture, token in
            let url = "https://www.example.com/cakes?id=1"
            let info = try await fixture.kakao.call(RetrieveLinkInfo(url: url), as: token)
            #expect(info.url == url)
            #expect(info.requestedURL == url)
            #expect(info.host == "www.example.com")
            #expect(info.title?.isEmpty == false)
            #expect(info.images?.count == 1)
            #expect(try await fixture.kakao.call(RetrieveLinkInfo(url: url), as: token) == info)
            for bad in ["example", "ftp://example.com", "https://", "http://localhost/a", "https://a.invalid/"] {
                #expect(try await fixture.refusalCode(of: RetrieveLinkInfo(url: bad), as: token) == "400 -604")
            }
            let call = PostLink(linkInfo: ["url": .string(url), "title": "Cakes"], content: "Look")
            let id = try #require(try await fixture.kakao.call(call, as: token).id)
            let story = try await fixture.kakao.call(RetrieveStory(id: id), as: token)
            #expect(story.content == "Look")
            #expect(story.mediaType == "NOT_SUPPORTED")
            let shown = try await fixture.control(.get, "\(Self.control)/\(id)")
            #expect(shown.json?["link_info"] == ["url": .string(url), "title": "Cakes"])
            for info in [[:], ["url": "example"]] as [JSONObject] {
                #expect(try await fixture.refusalCode(of: PostLink(linkInfo: info), as: token) == "400 -2")
            }
        }
    }

    // MARK: Lists

    @Test("Stories come in pages of 18, the newest first, also after a story that was deleted meanwhile")
    func pages() async throws {
        try await Self.withStory { fixture, token in
            var ids: [String] = []
            for number in 1...40 {
                let posted = try await fixture.kakao.call(PostNote(content: "\(number)"), as: token)
                ids.insert(try #require(posted.id), at: 0)
            }
            #expect(Set(ids).count == 40)
            var listed: [String] = []
            var sizes: [Int] = []
            for number in 1...4 {
                let page = try await fixture.kakao.call(RetrieveStories(lastID: listed.last), as: token)
                listed += page.map(\.id)
                sizes.append(page.count)
                if number == 1 { try await fixture.kakao.call(DeleteStory(id: ids[17]), as: token) }
            }
            #expect(sizes == [18, 18, 4, 0])
            #expect(listed == ids)
            #expect(try await fixture.refusalCode(of: RetrieveStories(lastID: "_7.zzz"), as: token) == "400 -605")
            #expect(try await fixture.kakao.call(RetrieveStories(lastID: ""), as: token).first?.id == ids[0])
        }
    }

    @Test("Comments and moods that a control sets are counted in the list, and shown with the story")
    func reactions() async throws {
        try await Self.withStory { fixture, token in
            let id = try #require(try await fixture.kakao.call(PostNote(content: "Hi"), as: token).id)
            let reactions: JSONValue = [
                "comments": [["text": "I agree", "writer": ["display_name": "Ryan"]]],
                "likes": [
                    [
                        "emotion": "CHEER_UP",
                        "actor": ["display_name": "Ryan", "profile_thumbnail_url": "https://a/b"],
                    ],
                    ["emotion": "LIKE", "actor": ["display_name": "Muzi"]],
                ],
            ]
            #expect(try await fixture.control(.post, "\(Self.control)/\(id)", reactions).status == 200)
            let story = try await fixture.kakao.call(RetrieveStory(id: id), as: token)
            #expect(story.comments == [Story.Comment(text: "I agree", writer: Story.Actor(displayName: "Ryan"))])
            #expect(story.likes?.map(\.emotion) == ["CHEER_UP", "LIKE"])
            #expect(story.likes?.first?.actor.thumbnailURL == "https://a/b")
            let listed = try await fixture.kakao.call(RetrieveStories(), as: token)
            #expect(listed.map { [$0.commentCount, $0.likeCount] } == [[1, 2]])
            #expect(listed[0].comments == nil)

            let wrong: JSONValue = ["comments": [["text": "I agree"]]]
            let invalid = try await fixture.control(.post, "\(Self.control)/\(id)", wrong)
            #expect(invalid.status == 400)
            #expect(invalid.json?["field"] == "comments.writer")
            #expect(try await fixture.control(.post, "\(Self.control)/_7.9", reactions).status == 404)
            #expect(try await fixture.control(.get, "\(Self.control)/_7.9").status == 404)
        }
    }

    @Test("A control replaces a user's stories and uploaded images")
    func replaced() async throws {
        try await Self.withStory { fixture, token in
            _ = try await fixture.kakao.call(PostNote(content: "Old"), as: token)
            let story: JSONValue = [
                "id": "_a.b", "url": "https://story.kakao.com/_a/b", "created_at": "2022-04-11T01:45:28Z",
                "comment_count": 0, "like_count": 5,
            ]
            let path = "/a/b/img.png?width=150&height=150"
            let body: JSONValue = ["stories": [story], "images": [.string(path)]]
            let answer = try await fixture.control(.post, Self.control, body)
            #expect(answer.json?["stories"] == [story])
            #expect(answer.json?["images"] == [.string(path)])
            let posted = try #require(try await fixture.kakao.call(PostPhoto(images: [path]), as: token).id)
            let listed = try await fixture.kakao.call(RetrieveStories(), as: token)
            #expect(listed.map(\.id) == [posted, "_a.b"])
            #expect(listed[0].media?[0].original == "https://story.kakaocdn.net\(path)")
            let badPaths: [JSONValue] = [
                "a/img.png?width=1&height=1", "/a/img.png", "/a/img?width=1&height=1", "/a/i.png?width=0&height=1",
            ]
            for bad in badPaths {
                let invalid = try await fixture.control(.post, Self.control, ["images": [bad]])
                #expect(invalid.json?["field"] == "images")
            }
        }
    }

    // MARK: Users and scopes

    @Test("A user without KakaoStory can call for nothing but that answer")
    func noStoryUser() async throws {
        try await Self.withStory { fixture, token in
            #expect(try await fixture.kakao.call(CheckStoryUser(), as: token))
            _ = try await fixture.control(.post, Self.control, ["story_user": false])
            #expect(try await fixture.kakao.call(CheckStoryUser(), as: token) == false)
            let calls: [any KakaoCall] = [
                RetrieveStoryProfile(), RetrieveLinkInfo(url: "https://example.com"), PostNote(content: "a"),
                PostPhoto(images: ["/a"]), PostLink(linkInfo: ["url": "https://example.com"]), RetrieveStories(),
                RetrieveStory(id: "a"), DeleteStory(id: "a"), UploadStoryImages(),
            ]
            for call in calls { #expect(try await fixture.refusalCode(of: call, as: token) == "400 -601") }
        }
    }

    @Test("The profile has what the user has agreed to")
    func profile() async throws {
        try await Self.withStory { fixture, token in
            func profile(_ scopes: JSONValue, secure: Bool? = true) async throws -> RetrieveStoryProfile.Answer {
                try fixture.sandbox.setUser(7, ["scopes": scopes])
                return try await fixture.kakao.call(RetrieveStoryProfile(secureResource: secure), as: token)
            }
            let nothing = try await profile([])
            #expect(nothing.nickname == nil && nothing.profileImageURL == nil && nothing.permalink == nil)
            #expect(nothing.birthday == nil && nothing.birthdayType == nil)
            #expect(try await profile(["profile_nickname"]).nickname == "Story user 7")
            #expect(try await profile(["story_permalink"]).permalink == "https://story.kakao.com/_7")
            let birthday = try await profile(["birthday"])
            #expect([birthday.birthday, birthday.birthdayType] == ["1130", "SOLAR"])
            #expect(try await profile(["profile_image"]).thumbnailURL?.hasPrefix("https://") == true)
            #expect(try await profile(["profile_image"], secure: nil).profileImageURL?.hasPrefix("http://") == true)
        }
    }

    @Test("Posts need story_publish, and reading needs story_read: -402 names the scope")
    func scopes() async throws {
        try await Self.withStory(scopes: ["profile_nickname"]) { fixture, token in
            let posts: [any KakaoCall] = [
                RetrieveLinkInfo(url: "https://example.com"), PostNote(content: "a"), PostPhoto(images: ["/a"]),
                PostLink(linkInfo: ["url": "https://example.com"]), UploadStoryImages(),
            ]
            let reads: [any KakaoCall] = [RetrieveStories(), RetrieveStory(id: "a")]
            for (calls, scope) in [(posts, "story_publish"), (reads, "story_read")] {
                for call in calls {
                    do throws(KakaoError) {
                        try await Self.run(fixture, call, token)
                        Issue.record("\(call) was accepted")
                    } catch {
                        #expect(error.disposition == .consent)
                        #expect(error.requiredScopes == [scope])
                    }
                }
            }
            let body = try await fixture.call(
                "/v1/api/story/mystories",
                method: .get,
                authorization: "Bearer \(try #require(fixture.sandbox.accessToken(of: 7)))"
            )
            #expect(body.status == 403)
            #expect(body.json?["required_scopes"] == ["story_read"])
            #expect(body.json?["allowed_scopes"] == ["profile_nickname"])
            // A deletion needs the login only.
            #expect(try await fixture.refusalCode(of: DeleteStory(id: "a"), as: token) == "400 -605")
            try fixture.sandbox.setUser(7, ["linked": false])
            #expect(try await fixture.refusalCode(of: CheckStoryUser(), as: token) == "400 -101")
        }
    }

    private static func run<Call: KakaoCall>(
        _ fixture: Fixture,
        _ call: Call,
        _ credential: KakaoCredential
    ) async throws(KakaoError) {
        _ = try await fixture.kakao.call(call, as: credential)
    }

    @Test("Faults apply to uploads too, also those that are limited to a user")
    func faults() async throws {
        try await Self.withStory { fixture, token in
            var fault = Fault(.status)
            fault.path = "/v1/api/story/upload/multi"
            fault.status = 400
            fault.code = -603
            fault.userIDs = [7]
            fixture.sandbox.add(fault)
            let files = [Self.file(Self.gif)]
            let refusal = try await fixture.refusalCode(of: UploadStoryImages(), as: token, uploads: files)
            #expect(refusal == "400 -603")
        }
    }
}
