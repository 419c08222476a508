import HTTPClient
import HTTPTypes
import JSON
import KakaoSandbox
import Testing

@testable import KakaoAPI

/// Kakao's calls about users, by the client that the server has.
@Suite struct UserCallTests {
    private static let admin = KakaoCredential.adminKeyForUser(7)

    // MARK: User information

    @Test("A user is shown with what the user agreed to, by token and by Admin key")
    func me() async throws {
        try await withSandbox { fixture in
            for credential in [Self.admin, try fixture.token(of: 7)] {
                let user = try await fixture.kakao.call(RetrieveUser(), as: credential)
                #expect(user.userID == 7)
                #expect(user.connectedAt?.hasSuffix("Z") == true)
                #expect(user.hasSignedUp == nil)
                #expect(user.properties == ["nickname": "User 7"])
                let account = try #require(user.kakaoAccount)
                #expect(account["email_needs_agreement"] == false)
                #expect(account["email"] == "user7@example.com")
                #expect(account["gender_needs_agreement"] == true)
                #expect(account["gender"] == nil)
                let image = account["profile"]?["profile_image_url"]?.string
                #expect(image == "http://k.kakaocdn.net/dn/sandbox/7/img_640x640.jpg")
            }
            let secure = try await fixture.kakao.call(RetrieveUser(secureResource: true), as: Self.admin)
            #expect(secure.kakaoAccount?["profile"]?["profile_image_url"]?.string?.hasPrefix("https://") == true)
        }
    }

    @Test("property_keys select members")
    func propertyKeys() async throws {
        try await withSandbox { fixture in
            func user(_ keys: [String]) async throws -> RetrieveUser.Answer {
                try await fixture.kakao.call(RetrieveUser(propertyKeys: keys), as: Self.admin)
            }
            let email = try await user(["kakao_account.email"])
            #expect(
                email.kakaoAccount == [
                    "email_needs_agreement": false, "is_email_valid": true, "is_email_verified": true,
                    "email": "user7@example.com",
                ]
            )
            #expect(email.properties == nil)
            #expect(try await user(["kakao_account."]).kakaoAccount?["profile"]?["nickname"] == "User 7")
            let nickname = try await user(["properties.nickname"])
            #expect(nickname.kakaoAccount == nil)
            #expect(nickname.properties == ["nickname": "User 7"])
        }
    }

    @Test("Several users are returned in one call, without those who are not linked")
    func appUsers() async throws {
        try await withSandbox { fixture in
            _ = try await fixture.kakao.call(UnlinkUser(), as: Self.admin)
            let users = try await fixture.kakao.call(RetrieveAppUsers(targetIDs: [.max, 7, 8]))
            #expect(users.map(\.userID) == [.max, 8])
            let emails = RetrieveAppUsers(targetIDs: [8], propertyKeys: ["kakao_account.email"])
            #expect(try await fixture.kakao.call(emails).first?.kakaoAccount?["email"] == "user8@example.com")
            let many = RetrieveAppUsers(targetIDs: Array(1...21), propertyKeys: ["kakao_account.email"])
            #expect(
                try await fixture.refusal(of: many, as: .adminKey)
                    == "400 -2 failed to parse parameter. name=target_ids, it must be an array of 1 to 20 elements if property_keys is given"
            )
        }
    }

    @Test("The ids of the linked users come in pages, in both orders, up to 100 times a minute")
    func ids() async throws {
        try await withSandbox { fixture in
            for userID in [5, 3, 9, 1, 7] as [Int64] { try fixture.sandbox.setUser(userID, [:]) }
            try fixture.sandbox.setUser(9, ["linked": false])
            let first = try await fixture.kakao.call(RetrieveUserIDs(limit: 2))
            #expect(first.userIDs == [1, 3])
            #expect(first.beforeURL == nil)
            let next = "\(fixture.sandbox.url)/v1/user/ids?limit=2&order=asc&from_id=5"
            #expect(first.afterURL == next)
            let last = try await fixture.kakao.call(RetrieveUserIDs(limit: 2, fromID: 5))
            #expect(last.userIDs == [5, 7])
            #expect(last.afterURL == nil)
            #expect(last.beforeURL == "\(fixture.sandbox.url)/v1/user/ids?limit=2&order=asc&from_id=1")
            let descending = try await fixture.kakao.call(RetrieveUserIDs(fromID: 6, order: .descending))
            #expect(descending.userIDs == [5, 3, 1])
            #expect(try await fixture.kakao.call(RetrieveUserIDs(fromID: .max)).userIDs.isEmpty)
            for _ in 4..<100 { _ = try await fixture.kakao.call(RetrieveUserIDs(limit: 1)) }
            let refused = try await fixture.refusal(of: RetrieveUserIDs(), as: .adminKey)
            #expect(refused == "429 -10 API limit has been exceeded.")
        }
    }

    // MARK: Logout and unlink

    @Test("A logout ends the token; with the Admin key, all tokens of the user")
    func logout() async throws {
        try await withSandbox { fixture in
            let (first, second) = (try fixture.token(of: 7), try fixture.token(of: 7))
            #expect(try await fixture.kakao.call(LogOutUser(), as: first).userID == 7)
            #expect(try await fixture.refusal(of: LogOutUser(), as: first).hasPrefix("401 -401 "))
            #expect(try await fixture.kakao.call(RetrieveUser(), as: second).userID == 7)
            #expect(try await fixture.kakao.call(LogOutUser(), as: Self.admin).userID == 7)
            #expect(try await fixture.refusal(of: RetrieveUser(), as: second).hasPrefix("401 -401 "))
        }
    }

    @Test("An unlink ends tokens and consents; a second one is -101 with the Admin key and -401 with the token")
    func unlink() async throws {
        try await withSandbox { fixture in
            let token = try fixture.token(of: 7)
            try fixture.sandbox.setUser(7, ["scopes": ["talk_message"]])
            #expect(try await fixture.kakao.call(UnlinkUser(), as: token).userID == 7)
            #expect(try await fixture.refusal(of: UnlinkUser(), as: token).hasPrefix("401 -401 "))
            let unknown = "400 -101 NotRegisteredUserException"
            #expect(try await fixture.refusal(of: UnlinkUser()) == unknown)
            #expect(try await fixture.refusal(of: RetrieveUser()) == unknown)
            // A login links the user again, without the former consents.
            let scopes = try await fixture.kakao.call(RetrieveScopes(), as: try fixture.token(of: 7)).scopes
            #expect(scopes?.first { $0.id == "talk_message" }?.isAgreed == false)
        }
    }

    // MARK: Sign-up and properties

    @Test("A user who has not signed up does so once, with properties")
    func signup() async throws {
        try await withSandbox { fixture in
            let token = try fixture.token(of: 7)
            let call = SignUpUser(properties: ["clothing_size": "small"])
            #expect(try await fixture.refusal(of: call, as: token) == "400 -102 already registered")
            try fixture.sandbox.setUser(7, ["has_signed_up": false])
            #expect(try await fixture.kakao.call(RetrieveUser(), as: token).hasSignedUp == false)
            let unknown = SignUpUser(properties: ["shoe": 1])
            #expect(try await fixture.refusal(of: unknown, as: token).hasPrefix("400 -201 "))
            #expect(try await fixture.kakao.call(call, as: token).userID == 7)
            let user = try await fixture.kakao.call(RetrieveUser(), as: token)
            #expect(user.hasSignedUp == true)
            #expect(user.properties?["clothing_size"] == "small")
            #expect(try await fixture.refusal(of: call, as: token) == "400 -102 already registered")
        }
    }

    @Test("A token names no user before the sign-up, which links the user; an unlink asks for another one")
    func unlinkedUser() async throws {
        try await withSandbox { fixture in
            try fixture.sandbox.setUser(7, ["linked": false, "has_signed_up": false])
            let token = try fixture.token(of: 7)
            #expect(try await fixture.kakao.call(AccessTokenInfo(), as: token).userID == nil)
            let unknown = "400 -101 NotRegisteredUserException"
            #expect(try await fixture.refusal(of: RetrieveUser(), as: token) == unknown)
            #expect(try await fixture.refusal(of: RetrieveScopes(), as: token) == unknown)
            #expect(try await fixture.refusal(of: LogOutUser()) == unknown)
            #expect(try await fixture.kakao.call(SignUpUser(), as: token).userID == 7)
            #expect(try await fixture.kakao.call(AccessTokenInfo(), as: token).userID == 7)
            #expect(try await fixture.kakao.call(RetrieveUser(), as: token).hasSignedUp == true)
            #expect(try await fixture.kakao.call(UnlinkUser(), as: token).userID == 7)
            let next = try fixture.token(of: 7)
            #expect(try await fixture.kakao.call(AccessTokenInfo(), as: next).userID == nil)
            #expect(try await fixture.kakao.call(LogOutUser(), as: next).userID == 7)
            #expect(try await fixture.refusal(of: AccessTokenInfo(), as: next).hasPrefix("401 -401 "))
        }
    }

    @Test("Properties are stored as texts, under the keys that the app has")
    func updateProfile() async throws {
        try await withSandbox { fixture in
            let token = try fixture.token(of: 7)
            let call = UpdateUserProfile(properties: ["age": 23, "clothing_size": "small"])
            #expect(try await fixture.kakao.call(call, as: token).userID == 7)
            let user = try await fixture.kakao.call(RetrieveUser(), as: token)
            #expect(user.properties == ["nickname": "User 7", "age": "23", "clothing_size": "small"])
            let unknown = UpdateUserProfile(properties: ["gender": "x", "shoe": true])
            #expect(
                try await fixture.refusal(of: unknown, as: token)
                    == "400 -201 user property not found ([gender, shoe] for appId=123456)"
            )
            for properties in [nil, "x", "{", "[]", #"{"age":null}"#, #"{"age":{}}"#] {
                var form: KeyValuePairs = ["a": "b"]
                if let properties { form = ["properties": properties] }
                let token = try #require(fixture.sandbox.accessToken(of: 7))
                let answer = try await fixture.call(
                    "/v1/user/update_profile",
                    form,
                    authorization: "Bearer \(token)"
                )
                #expect(answer.status == 400)
                #expect(answer.code == -2)
            }
        }
    }

    // MARK: Scopes and terms

    @Test("Scopes are listed with the consent, also one that the app no longer uses")
    func scopes() async throws {
        try await withSandbox { fixture in
            try fixture.sandbox.setUser(7, ["scopes": ["profile_nickname", "account_email", "plusfriends"]])
            let scopes = try #require(try await fixture.kakao.call(RetrieveScopes(), as: Self.admin).scopes)
            func scope(_ id: String) -> UserScopes.Scope? { scopes.first { $0.id == id } }
            #expect(scope("profile_nickname")?.isRevocable == false)
            #expect(scope("account_email")?.isRevocable == true)
            #expect(scope("account_email")?.type == "PRIVACY")
            #expect(scope("gender")?.isAgreed == false)
            #expect(scope("gender")?.isRevocable == nil)
            #expect(scope("plusfriends")?.isUsed == false)
            let some = try await fixture.kakao.call(RetrieveScopes(scopes: ["gender", "friends"]), as: Self.admin)
            #expect(some.scopes?.map(\.id) == ["gender", "friends"])
            let null = try await fixture.call(
                "/v2/user/scopes",
                ["scopes": "null", "target_id_type": "user_id", "target_id": "7"],
                method: .get
            )
            #expect(null.json?["scopes"]?.array?.count == scopes.count)
        }
    }

    @Test("A revoked scope is not agreed any more; a required one is -3, none at all -2")
    func revokeScopes() async throws {
        try await withSandbox { fixture in
            let answer = try await fixture.kakao.call(RevokeScopes(scopes: ["account_email"]), as: Self.admin)
            #expect(answer.scopes?.first { $0.id == "account_email" }?.isAgreed == false)
            let user = try await fixture.kakao.call(RetrieveUser(), as: Self.admin)
            #expect(user.kakaoAccount?["email_needs_agreement"] == true)
            #expect(user.kakaoAccount?["email"] == nil)
            let again = try await fixture.refusal(of: RevokeScopes(scopes: ["account_email"]))
            #expect(again == "400 -2 There is no scopes to revoke.")
            let required = try await fixture.refusal(of: RevokeScopes(scopes: ["profile_nickname", "profile_image"]))
            #expect(required == "403 -3 [profile_nickname] is not revocable.")
        }
    }

    @Test("Service terms are agreed to and revoked; what cannot be revoked is left out without an error")
    func serviceTerms() async throws {
        try await withSandbox { fixture in
            let token = try fixture.token(of: 7)
            func terms(_ call: RetrieveServiceTerms) async throws -> [UserServiceTerms.Term] {
                try await fixture.kakao.call(call, as: token).terms ?? []
            }
            let agreed = try await terms(RetrieveServiceTerms())
            #expect(agreed.map(\.tag) == ["service", "privacy"])
            #expect(agreed.allSatisfy { $0.isRequired == true && $0.isRevocable == false && $0.agreedBy == "KAUTH" })
            let all = try await terms(RetrieveServiceTerms(result: .all, tags: ["marketing", "service"]))
            #expect(all.map(\.tag) == ["service", "marketing"])
            #expect(all.last?.agreedAt == nil)

            let upgraded = try await fixture.kakao.call(
                UpgradeServiceTerms(tags: ["marketing", "unknown"]),
                as: token
            )
            #expect(upgraded.terms?.map(\.tag) == ["marketing"])
            #expect(upgraded.terms?.first?.agreedBy == "KAPI")
            #expect(try await terms(RetrieveServiceTerms(tags: ["marketing"])).first?.isRevocable == true)
            let revoked = try await fixture.kakao.call(
                RevokeServiceTerms(tags: ["service", "marketing", "location"]),
                as: token
            )
            #expect(revoked.terms?.map(\.tag) == ["marketing"])
            #expect(revoked.terms?.first?.isAgreed == false)
            #expect(try await terms(RetrieveServiceTerms(tags: ["marketing"])).isEmpty)
            let unknown = try await fixture.refusal(of: RetrieveServiceTerms(tags: ["x"]), as: token)
            #expect(unknown.hasPrefix("400 -2 "))
        }
    }

    @Test(
        "Tags may be one list or several parameters",
        arguments: ["tags=service,marketing", "tags=service&tags=marketing"]
    )
    func repeatedTags(query: String) async throws {
        try await withSandbox { fixture in
            let path = "/v2/user/service_terms?result=app_service_terms&target_id_type=user_id&target_id=7&\(query)"
            var request = HTTPClientRequest(url: fixture.sandbox.url + path)
            request.headerFields[.authorization] = "KakaoAK sandbox-admin-key"
            let answer = try await fixture.client.send(request)
            let terms = answer.json?["service_terms"]?.array ?? []
            #expect(terms.map { $0["tag"] } == ["service", "marketing"])
        }
    }

    // MARK: Shipping addresses

    @Test("Shipping addresses need a consent, and come in pages: the default one first, then the newest")
    func shippingAddresses() async throws {
        try await withSandbox { fixture in
            func answer(_ call: RetrieveShippingAddresses) async throws -> RetrieveShippingAddresses.Answer {
                try await fixture.kakao.call(call, as: Self.admin)
            }
            let none = try await answer(RetrieveShippingAddresses())
            #expect(none.needsAgreement == true)
            #expect(none.addresses == nil)
            let addresses: [JSONValue] = (1...5).map { number in
                ["id": .integer(number), "is_default": .bool(number == 2), "updated_at": .integer(number * 100)]
            }
            try fixture.sandbox.setUser(7, ["scopes": ["shipping_address"], "shipping_addresses": .array(addresses)])
            let all = try await answer(RetrieveShippingAddresses())
            #expect(all.needsAgreement == false)
            #expect(all.addresses?.map(\.id) == [2, 5, 4, 3, 1])
            let page = try await answer(RetrieveShippingAddresses(fromUpdatedAt: "0", pageSize: 3)).addresses
            #expect(page?.map(\.id) == [2, 5, 4])
            let end = try #require(page?.last?.updatedAt)
            // Kakao's SDK for Flutter sends a fraction.
            for end in ["\(end)", "\(end).123"] {
                let next = try await answer(RetrieveShippingAddresses(fromUpdatedAt: end, pageSize: 3)).addresses
                #expect(next?.map(\.id) == [3, 1])
            }
            #expect(try await answer(RetrieveShippingAddresses(addressID: 3)).addresses?.map(\.id) == [3])
            let fields: KeyValuePairs = [
                "address_id": "3", "page_size": "3", "target_id_type": "user_id", "target_id": "7",
            ]
            let both = try await fixture.call("/v1/user/shipping_address", fields, method: .get)
            #expect(both.code == -2)
        }
    }

    // MARK: The control

    @Test("The control shows and changes a user, and rejects what it does not know")
    func control() async throws {
        try await withSandbox { fixture in
            let path = "/sandbox/users/9223372036854775807"
            let shown = try await fixture.control(.get, path)
            #expect(shown.json?["user_id"] == "9223372036854775807")
            #expect(shown.json?["linked"] == true)
            #expect(shown.json?["has_signed_up"] == .null)
            let changes: JSONValue = [
                "has_signed_up": false, "scopes": ["friends"], "service_terms": ["marketing"],
                "properties": ["age": "9"], "account": ["name": .null, "email": "a@b.example"],
                "shipping_addresses": [["id": 1, "is_default": true, "name": "Home"]],
            ]
            let changed = try await fixture.control(.post, path, changes)
            #expect(changed.status == 200)
            let again = try #require(try await fixture.control(.get, path).json)
            #expect(again == changed.json)
            #expect(again["service_terms"] == ["marketing"])
            #expect(again["account"]?["name"] == nil)
            #expect(again["account"]?["gender"] == "female")
            #expect(again["shipping_addresses"] == [["id": 1, "name": "Home", "is_default": true]])
            let wrong: [(JSONValue, String)] = [
                (["scope": []], "scope"), (["scopes": "friends"], "scopes"), (["linked": 1], "linked"),
                (["service_terms": ["x"]], "service_terms"), (["properties": ["x": "1"]], "properties"),
                (["account": ["x": "1"]], "account"),
                (["shipping_addresses": [["id": 1]]], "shipping_addresses.is_default"),
                (["shipping_addresses": [["id": 1, "is_default": true, "x": 1]]], "shipping_addresses"),
                (["shipping_addresses": [1]], "shipping_addresses"), (["shipping_addresses": 1], "shipping_addresses"),
            ]
            for (body, field) in wrong {
                let answer = try await fixture.control(.post, path, body)
                #expect(answer.status == 400)
                #expect(answer.json?["field"]?.string == field)
            }
            #expect(try await fixture.control(.get, path).json == again)
            #expect(try await fixture.control(.get, "/sandbox/users/x").status == 404)
        }
    }
}
