import HTTPClient
import HTTPServer
import HTTPTypes
import KakaoAPI
import Locking
import ServiceTesting
import TestSupport
import Testing

@testable import Accounts
@testable import Messages
@testable import ServiceKit

/// Friends lists of a Kakao that does not behave as documented.
@Suite(.timeLimit(.minutes(1))) struct FriendsListsTests {
    private struct OneToken: UserTokenSource {
        func accessToken(of userID: Int64, replacing rejected: String?) -> String { "token" }
    }

    /// Reads the friends of a user from a Kakao that answers with `respond`, which gets the number of the request.
    private static func friends(
        _ respond: @escaping @Sendable (Int) -> Response
    ) async throws -> (result: Result<FriendsLists.Friends, any Error>, requests: Int) {
        let requests = Locked(0)
        let result = Locked<Result<FriendsLists.Friends, any Error>?>(nil)
        let routes = { @Sendable (router: inout Router) in
            router.on(.get, "/v1/api/talk/friends") { _ in
                respond(
                    requests.withLock { count in
                        count += 1
                        return count
                    }
                )
            }
        }
        try await TestDatabase.with { database in
            try await withStubServer(routes) { url in
                let lists = FriendsLists(
                    pool: database.pool,
                    kakao: KakaoClient(
                        settings: KakaoAPISettings(apiURL: url, adminKey: KakaoKey(Keys.admin)),
                        client: HTTPClient(loop: try Shared.loop)
                    ),
                    tokens: OneToken()
                )
                do {
                    let friends = try await lists.friends(of: 1) { _ in true }
                    result.withLock { $0 = .success(friends) }
                } catch {
                    result.withLock { $0 = .failure(error) }
                }
            }
        }
        return (try #require(result.withLock { $0 }), requests.withLock { $0 })
    }

    @Test("Pages that repeat their friends at ever higher offsets come to an end")
    func repeatedPages() async throws {
        let (result, requests) = try await Self.friends { number in
            let page = """
                {"elements":[{"id":2,"uuid":"a"}],"total_count":9,"after_url":"https://evil.example.com/?offset=\(number)"}
                """
            return .json(Array(page.utf8))
        }
        #expect(try result.get().uuids == [2: "a"])
        #expect(requests == 2)
    }

    @Test("A quota of calls postpones the list, and fails nobody")
    func quota() async throws {
        let (result, _) = try await Self.friends { _ in
            .json(Array(#"{"msg":"API limit has been exceeded.","code":-10}"#.utf8), status: .tooManyRequests)
        }
        let unavailable = #expect(throws: FriendsLists.Unavailable.self) { try result.get() }
        #expect(unavailable?.delay == .seconds(60))
    }
}
