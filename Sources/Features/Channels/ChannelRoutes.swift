import Endpoints
import HTTPServer
import HTTPTypes
import Postgres
import Schemas

/// `/v1/users/{user_id}/channels`, where operators look up which KakaoTalk channels a user has added.
struct ChannelRoutes: RouteCollection {
    static let title = "KakaoTalk channels"
    static let operations = [listing]

    let pool: PostgresPool

    private static let userID = Field.path("user_id", .userID, "The user, by Kakao's id.")

    private static let listing = Operation(
        "listChannelsOfUser",
        .get,
        "/v1/users/{user_id}/channels",
        .operator(.read),
        "Lists the KakaoTalk channels that a user has added or blocked, as Kakao has reported to `/kakao/channel`.",
        path: [userID],
        query: Page<String>.fields,
        answers: [.page(of: ChannelRelation.shape, "The channels, sorted by their ids.")],
        auditing: .lookup { .user(try $0[userID]) },
        handler: list
    )

    @Sendable private func list(_ call: Call) async throws -> Response {
        let page = try Page<String>(call)
        let list = ListChannelsOfUser(
            userID: try call[Self.userID],
            after: page.cursor,
            limit: Int64(page.limit + 1)
        )
        let relations = try await pool.read(list, mayBeBehind: true)
        return page.response(relations, ChannelRelation.shape, cursor: \.channelPublicID)
    }
}
