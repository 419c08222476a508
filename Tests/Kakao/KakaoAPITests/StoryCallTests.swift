import JSON
import Schemas
import Testing

@testable import KakaoAPI

/// The parameters and the responses of KakaoStory's calls.
@Suite struct StoryCallTests {
    /// Returns the name of the parameter that a call rejects; `nil` if it accepts all.
    private static func rejected<Call: KakaoCall>(_: Call.Type, _ parameters: JSONObject) -> String? {
        do {
            _ = try Call.operation.parameters.read(parameters)
            return nil
        } catch {
            return error.name
        }
    }

    // MARK: Parameters

    @Test("The text of a note has 1 to 2048 characters, also of several lines; that of images and links may be absent")
    func content() {
        for (text, isValid) in [
            ("a", true), ("a\r\n가\t😀", true), (String(repeating: "가", count: 2048), true), ("", false),
            (String(repeating: "a", count: 2049), false),
        ] {
            #expect(Self.rejected(PostNote.self, ["content": .string(text)]) == (isValid ? nil : "content"))
            let photo: JSONObject = ["image_url_list": "[\"/a\"]", "content": .string(text)]
            #expect(Self.rejected(PostPhoto.self, photo) == (isValid || text.isEmpty ? nil : "content"))
        }
        #expect(Self.rejected(PostNote.self, [:]) == "content")
        #expect(Self.rejected(PostPhoto.self, ["image_url_list": ["/a"]]) == nil)
        #expect(Self.rejected(PostLink.self, ["link_info": "{}"]) == nil)
    }

    @Test("A story has one to five images, whose paths are JSON, also as text")
    func images() throws {
        let paths = ["/a", "/b", "/c", "/d", "/e", "/f"].map { JSONValue.string($0) }
        for (list, isValid) in [
            (JSONValue.array(paths.dropLast()), true), (.string(#"["/a","/b"]"#), true), (.array(paths), false),
            ([], false), ("/a", false), (#"["/a",1]"#, false),
        ] {
            #expect(Self.rejected(PostPhoto.self, ["image_url_list": list]) == (isValid ? nil : "image_url_list"))
        }
        let call = try PostPhoto.operation.parameters.read(["image_url_list": #"["/b","/a"]"#])
        #expect(call.images == ["/b", "/a"])
    }

    @Test("A link's description is a JSON object, also as text, and keeps members that Kakao has added")
    func link() throws {
        for value in [#"{"url":"https://example.com","image":["a"],"new":{"a":null}}"# as JSONValue] {
            let object = try value.structured()
            for given in [value, object] {
                let call = try PostLink.operation.parameters.read(["link_info": given])
                let sent = PostLink.operation.texts(of: call)
                #expect(sent.map(\.name) == ["link_info"])
                #expect(try JSONValue(parsing: sent[0].text) == object)
            }
        }
        for value in ["", "{", "[]", "https://example.com"] {
            #expect(Self.rejected(PostLink.self, ["link_info": .string(value)]) == "link_info")
        }
    }

    @Test("The three calls that post a story have the same options")
    func options() throws {
        let options: JSONObject = [
            "permission": "F", "enable_share": "true", "android_exec_param": "a=1&b=2", "ios_exec_param": "",
            "android_market_param": "c=3", "ios_market_param": "d=%20",
        ]
        let expected = StoryPostOptions(
            permission: .friends,
            isSharingEnabled: true,
            androidExecutionParams: "a=1&b=2",
            iosExecutionParams: "",
            androidMarketParams: "c=3",
            iosMarketParams: "d=%20"
        )
        func parameters(_ content: JSONObject) -> JSONObject {
            options.members.reduce(into: content) { $0[$1.name] = $1.value }
        }
        let note = try PostNote.operation.parameters.read(parameters(["content": "a"]))
        #expect(note.options == expected)
        #expect(PostNote.operation.texts(of: note).map(\.name) == ["content"] + options.members.map(\.name))
        let photo = parameters(["image_url_list": ["/a"]])
        #expect(try PostPhoto.operation.parameters.read(photo).options == expected)
        #expect(try PostLink.operation.parameters.read(parameters(["link_info": [:]])).options == expected)
        #expect(try PostNote.operation.parameters.read(["content": "a"]).options == StoryPostOptions())
        for (name, value) in [("permission", "PUBLIC"), ("enable_share", "1")] {
            #expect(Self.rejected(PostNote.self, ["content": "a", name: .string(value)]) == name)
        }
    }

    @Test("The first page has no last_id, or an empty one")
    func firstPage() throws {
        #expect(try RetrieveStories.operation.parameters.read([:]).lastID == nil)
        #expect(try RetrieveStories.operation.parameters.read(["last_id": ""]).lastID == "")
        #expect(Self.rejected(RetrieveStory.self, ["id": ""]) == "id")
    }

    // MARK: Answers

    @Test("A story is posted even if Kakao returns no id")
    func postWithoutID() {
        let decode = PostNote.operation.answer.decode
        #expect(decode(Array(#"{"id":"_a.b"}"#.utf8))?.id == "_a.b")
        for body in ["{}", #"{"id":null}"#, #"{"id":1}"#] {
            #expect(decode(Array(body.utf8)) != nil)
            #expect(decode(Array(body.utf8))?.id == nil)
        }
        #expect(decode(Array("[]".utf8)) == nil)
    }

    @Test("A mood is in emotion or emoticon")
    func moods() throws {
        let body = """
            {"id":"_a.b","url":"https://story.kakao.com/a/b","created_at":"2022-04-11T01:45:28Z","comment_count":0,\
            "like_count":3,"likes":[{"emotion":"LIKE","actor":{"display_name":"A"}},\
            {"emoticon":"COOL","actor":{"display_name":"B","profile_thumbnail_url":""}},{"actor":{"display_name":"C"}}]}
            """
        let story = try #require(RetrieveStory.operation.answer.decode(Array(body.utf8)))
        #expect(story.likes?.map(\.emotion) == ["LIKE", "COOL", "NOT_DEFINED"])
        #expect(story.likes?.map(\.actor.displayName) == ["A", "B", "C"])
        #expect(story.comments == nil)
    }

    @Test("A story with invalid optional members is still read, one without an id is not")
    func invalidMembers() {
        let required = #""url":"u","created_at":"t","comment_count":0,"like_count":0"#
        let story = RetrieveStory.operation.answer.decode(
            Array(#"{"id":"_a.b",\#(required),"content":1,"media":{},"comments":[{}],"media_type":null}"#.utf8)
        )
        #expect(story == Story(id: "_a.b", url: "u", createdAt: "t"))
        #expect(RetrieveStory.operation.answer.decode(Array("{\(required)}".utf8)) == nil)
        #expect(RetrieveStories.operation.answer.decode(Array("[]".utf8)) == [])
        #expect(RetrieveStories.operation.answer.decode(Array("{}".utf8)) == nil)
    }
}
