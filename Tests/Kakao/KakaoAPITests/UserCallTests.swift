import HTTPClient
import JSON
import TestSupport
import Testing

@testable import KakaoAPI

/// The responses to calls about users.
@Suite struct UserCallTests {
    /// Values that no member of a user should have, or that it has in other versions of Kakao's API.
    private static let garbage: [JSONValue] = [
        .null, true, -1, "", "x", [], [:], [1, "a"], ["nickname": ["a"]], .string(String(repeating: "가", count: 1000)),
    ]

    @Test("A user with invalid members is still read, with the valid ones", arguments: 0..<200)
    func invalidMembers(seed: UInt64) throws {
        var generator = SplitMix64(seed: seed)
        var members: [(String, JSONValue)] = [("id", 123_456_789)]
        let names = [
            "connected_at", "synched_at", "has_signed_up", "properties", "kakao_account", "for_partner", "new",
        ]
        for name in names {
            if let value = Self.garbage.randomElement(using: &generator) { members.append((name, value)) }
        }
        members.shuffle(using: &generator)
        var object = JSONObject()
        for (name, value) in members { object[name] = value }
        let user = try #require(RetrieveUser.operation.answer.decode(JSONValue.object(object).bytes()))
        #expect(user.userID == 123_456_789)
        #expect(user.hasSignedUp == object["has_signed_up"]?.bool)
        #expect(user.kakaoAccount == object["kakao_account"]?.object)
    }

    @Test("An answer without a user's id is not one", arguments: ["{}", #"{"id":"x"}"#, #"{"id":0}"#, "[]", ""])
    func withoutID(body: String) {
        #expect(RetrieveUser.operation.answer.decode(Array(body.utf8)) == nil)
        #expect(UnlinkUser.operation.answer.decode(Array(body.utf8)) == nil)
    }

    @Test("Several users come as an array, as in the samples, or as elements, as in the table")
    func appUsers() throws {
        for body in [#"[{"id":1},{"id":2}]"#, #"{"elements":[{"id":1},{"id":2}],"more":1}"#] {
            let users = RetrieveAppUsers.operation.answer.decode(Array(body.utf8))
            #expect(users?.map(\.userID) == [1, 2])
        }
    }

    @Test("One bad address makes the list unusable, but not the answer")
    func addresses() throws {
        let body = #"{"user_id":1,"shipping_addresses_needs_agreement":true,"shipping_addresses":[{"id":1}]}"#
        let answer = try #require(RetrieveShippingAddresses.operation.answer.decode(Array(body.utf8)))
        #expect(answer.needsAgreement == true)
        #expect(answer.addresses == nil)
    }

    @Test("A missing scope is the user's, with the Admin key too")
    func consent() async throws {
        let body = #"{"msg":"insufficient scopes.","code":-402,"required_scopes":["friends"]}"#
        let (error, _) = try await withKakao(answering: answer(403, body)) { kakao in
            await failure { () async throws(KakaoError) in
                try await kakao.call(RetrieveScopes(), as: .adminKeyForUser(1))
            }
        }
        #expect(error?.disposition == .consent)
    }
}
