import HTTPClient
import HTTPTypes
import JSON
import Testing

@testable import KakaoAPI
@testable import KakaoSandbox

/// The list of friends, profiles and channels.
@Suite struct FriendTests {
    private static func nickname(_ name: String) -> JSONObject {
        let image: JSONValue = "https://k.kakaocdn.net/img_110x110.jpg"
        return ["account": ["profile": ["nickname": .string(name), "thumbnail_image_url": image]]]
    }

    /// Returns the user ids of a page.
    private static func ids(_ fixture: Fixture, _ call: RetrieveFriends = RetrieveFriends()) async throws -> [Int64?] {
        try await fixture.kakao.call(call, as: try fixture.token(of: 1)).friends.map(\.userID)
    }

    @Test("A uuid names its user in this app only", arguments: [1, 2, 1 << 33, Int64.max])
    func uuids(userID: Int64) {
        let uuids = FriendUUIDs(appID: 123_456)
        let uuid = uuids.uuid(of: userID)
        #expect(uuid.count == 30)
        #expect(uuid.allSatisfy { $0.isASCII && ($0.isLetter || $0.isNumber || $0 == "-" || $0 == "_") })
        #expect(uuids.userID(of: uuid) == userID)
        #expect(FriendUUIDs(appID: 123_457).userID(of: uuid) == nil)
        for invalid in ["", "abc", String(uuid.dropLast()), uuid + "A", "A" + uuid.dropFirst(), "가" + uuid.dropFirst()]
        where invalid != uuid {
            #expect(uuids.userID(of: invalid) == nil)
        }
    }

    @Test("Favorites come first, then nicknames; other orders are possible")
    func order() async throws {
        try await withSandbox { fixture in
            for (userID, name) in [(2, "다"), (3, "가"), (4, "나"), (5, "라")] as [(Int64, String)] {
                try fixture.sandbox.setUser(userID, Self.nickname(name))
            }
            let friends: JSONValue = [2, 3, ["user_id": 4, "favorite": true], ["user_id": "5", "favorite": true]]
            try await fixture.set("/sandbox/talk/friends", ["users": [["user_id": 1, "friends": friends]]])
            #expect(try await Self.ids(fixture) == [4, 5, 3, 2])
            #expect(try await Self.ids(fixture, RetrieveFriends(friendOrder: .nickname)) == [3, 4, 2, 5])
            #expect(
                try await Self.ids(fixture, RetrieveFriends(order: .descending, friendOrder: .nickname)) == [
                    5, 2, 4, 3,
                ]
            )
            #expect(try await Self.ids(fixture, RetrieveFriends(friendOrder: .age)) == [2, 3, 4, 5])
            let answer = try await fixture.kakao.call(RetrieveFriends(limit: 1), as: try fixture.token(of: 1))
            #expect(answer.totalCount == 4)
            #expect(answer.favoriteCount == 2)
            let uuid = fixture.sandbox.friendUUID(of: 4)
            let image = "http://k.kakaocdn.net/img_110x110.jpg"
            let first = RetrieveFriends.Friend(
                userID: 4,
                uuid: uuid,
                nickname: "나",
                thumbnailURL: image,
                isFavorite: true
            )
            #expect(answer.friends == [first])
        }
    }

    @Test("The pages of many users, which were set in one request, have each friend once")
    func pages() async throws {
        try await withSandbox { fixture in
            let users = (1...40).map { user -> JSONValue in
                ["user_id": .integer(user), "friends": .array((1...25).map { .integer(1000 + (user * 7 + $0) % 100) })]
            }
            let set = try await fixture.control(.post, "/sandbox/talk/friends", ["users": .array(users)])
            #expect(set.json == ["friendships": 1000])
            for user in [1, 40] as [Int64] {
                var call = RetrieveFriends(limit: 10)
                var found: [Int64] = []
                var addresses: [String?] = []
                while true {
                    let page = try await fixture.kakao.call(call, as: try fixture.token(of: user))
                    #expect(page.totalCount == 25)
                    found += page.friends.compactMap(\.userID)
                    addresses.append(page.beforeURL)
                    guard let next = page.afterURL else { break }
                    call = try #require(RetrieveFriends(pageAt: next))
                }
                #expect(Set(found) == Set((1...25).map { 1000 + (user * 7 + $0) % 100 }))
                #expect(found.count == 25)
                let query = "limit=10&order=asc&friend_order=favorite"
                let url = "\(fixture.sandbox.url)/v1/api/talk/friends"
                #expect(addresses == [nil, "\(url)?offset=0&\(query)", "\(url)?offset=10&\(query)"])
            }
            #expect(try await Self.ids(fixture, RetrieveFriends(offset: .max)).isEmpty)
        }
    }

    @Test("Only linked users of KakaoTalk are listed who have agreed to it and are not hidden")
    func listed() async throws {
        try await withSandbox { fixture in
            try fixture.sandbox.setFriends([
                "users": [["user_id": 1, "friends": [2, 3, 4, 5, ["user_id": 6, "hidden": true]]]]
            ])
            try fixture.sandbox.setUser(3, ["linked": false])
            try fixture.sandbox.setUser(4, ["scopes": ["talk_message"]])
            try fixture.sandbox.setUser(5, ["talk_user": false])
            #expect(try await Self.ids(fixture) == [2])
            #expect(try await fixture.control(.get, "/sandbox/talk/friends/1").json?["friends"]?.array?.count == 5)
            let deleted = try await fixture.control(.delete, "/sandbox/talk/friends")
            #expect(deleted.status == 204)
            let empty = try await fixture.kakao.call(RetrieveFriends(), as: try fixture.token(of: 1))
            #expect(empty.friends.isEmpty)
            #expect(empty.totalCount == 0)
        }
    }

    @Test("A list without friends has no elements, as at Kakao")
    func withoutElements() async throws {
        try await withSandbox { fixture in
            try fixture.sandbox.befriend(1, [])
            let token = try #require(fixture.sandbox.accessToken(of: 1))
            let path = "/v1/api/talk/friends"
            let response = try await fixture.call(path, method: .get, authorization: "Bearer \(token)")
            #expect(response.text == #"{"total_count":0,"favorite_count":0}"#)
        }
    }

    @Test("The list needs the user's consent and KakaoTalk")
    func refused() async throws {
        try await withSandbox { fixture in
            let token = try #require(fixture.sandbox.accessToken(of: 1))
            let path = "/v1/api/talk/friends"
            let response = try await fixture.call(path, method: .get, authorization: "Bearer \(token)")
            #expect(response.status == 403)
            #expect(
                response.json == [
                    "msg": "insufficient scopes.", "code": -402, "api_type": "FRIENDS", "required_scopes": ["friends"],
                    "allowed_scopes": ["profile_nickname", "profile_image", "account_email"],
                ]
            )
            let calls = (RetrieveFriends(), TalkProfile(), RetrieveChannels())
            try fixture.sandbox.setUser(1, ["talk_user": false])
            let unused = "400 -501 given account is not connected to any talk user."
            let credential = try fixture.token(of: 1)
            #expect(try await fixture.refusal(of: calls.0, as: credential) == unused)
            #expect(try await fixture.refusal(of: calls.1, as: credential) == unused)
            #expect(try await fixture.refusal(of: calls.2, as: credential) == unused)
            try fixture.sandbox.setUser(1, ["linked": false])
            #expect(try await fixture.refusal(of: calls.0, as: credential) == "400 -101 NotRegisteredUserException")
        }
    }

    @Test("Before the review, only members of the team are listed")
    func review() async throws {
        try await withSandbox { fixture in
            try fixture.sandbox.befriend(1, [2, 3])
            try fixture.sandbox.setUser(3, ["team_member": true])
            try await fixture.set("/sandbox/talk/app", ["reviewed": false])
            #expect(try await Self.ids(fixture) == [3])
            #expect(try await fixture.control(.delete, "/sandbox/talk/app").status == 204)
            #expect(try await Self.ids(fixture) == [2, 3])
        }
    }

    @Test("A profile has the user's nickname and images")
    func profile() async throws {
        try await withSandbox { fixture in
            try fixture.sandbox.setUser(1, Self.nickname("Ryan"))
            let profile = try await fixture.kakao.call(TalkProfile(secureResource: true), as: try fixture.token(of: 1))
            #expect(profile.nickname == "Ryan")
            #expect(profile.thumbnailURL == "https://k.kakaocdn.net/img_110x110.jpg")
        }
    }

    @Test("A relation to a channel is returned by token and by Admin key, and an unknown channel is -541")
    func channels() async throws {
        try await withSandbox { fixture in
            try await fixture.set("/sandbox/users/1", ["channels": ["_xmXjjG": "BLOCKED"]])
            for credential in [try fixture.token(of: 1), .adminKeyForUser(1)] {
                let answer = try await fixture.kakao.call(RetrieveChannels(), as: credential)
                #expect(answer.userID == 1)
                #expect(answer.channels?.map(\.publicID) == ["_ZeUTxl", "_xmXjjG"])
                #expect(answer.channels?.map(\.relation) == ["NONE", "BLOCKED"])
                #expect(answer.channels?.map { $0.updatedAt == nil } == [true, false])
                let one = try await fixture.kakao.call(RetrieveChannels(channelIDs: ["_xmXjjG"]), as: credential)
                #expect(one.channels?.count == 1)
                let unknown = try await fixture.refusal(of: RetrieveChannels(channelIDs: ["_a"]), as: credential)
                #expect(unknown == "400 -541 the channel [_a] does not exist.")
            }
            #expect(try await fixture.control(.post, "/sandbox/users/1", ["channels": ["_a": "ADDED"]]).status == 400)
            let invalid: JSONValue = ["channels": ["_ZeUTxl": "LIKED"]]
            #expect(try await fixture.control(.post, "/sandbox/users/1", invalid).status == 400)
        }
    }

    @Test(
        "An invalid control changes nothing, and names the field",
        arguments: [
            (#"{}"#, "users"), (#"{"users":[1]}"#, "users"), (#"{"users":[{"friends":[]}]}"#, "user_id"),
            (#"{"users":[{"user_id":1,"friends":[2]},{"user_id":3}]}"#, "friends"),
            (#"{"users":[{"user_id":1,"friends":[{"user_id":2,"favourite":true}]}]}"#, "favourite"),
            (#"{"users":[{"user_id":1,"friends":[0]}]}"#, "friends"),
        ]
    )
    func invalidControl(body: String, field: String) async throws {
        try await withSandbox { fixture in
            let body = try JSONValue(parsing: Array(body.utf8))
            let response = try await fixture.control(.post, "/sandbox/talk/friends", body)
            #expect(response.status == 400)
            #expect(response.json?["field"]?.string == field)
            #expect(try await fixture.control(.get, "/sandbox/talk/friends/1").json?["friends"] == [])
        }
    }
}
