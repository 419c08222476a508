import HTTPTypes
import Schemas

/// Lists the ids of the app's users in pages. (Kakao, "Kakao Login: REST API", "Retrieve user list".)
///
/// Error -10 (429) means that the app has made more than 100 calls within a minute.
package struct RetrieveUserIDs: KakaoCall {
    /// The number of ids on a page, 1 to 100. Kakao's default is 100.
    package var limit: Int64?
    /// The first id of the page; the first or last of all if `nil`.
    package var fromID: Int64?
    /// The order of the ids; `nil` for ``SortOrder/ascending``.
    package var order: SortOrder?

    package static let operation = KakaoOperation<Self>(
        "user_ids",
        [.get],
        "/v1/user/ids",
        .user,
        [.adminKey],
        "Lists the ids of the app's users. Kakao accepts 100 calls a minute.",
        parameters: Record(
            .optional("limit", \.limit, Kind<Int64>.integer(1...100), "The number of ids; 100 if it is absent."),
            .optional("from_id", \.fromID, .kakaoID, "The first id of the page."),
            .optional("order", \.order, .choice, "The order of the ids; `asc` if it is absent."),
            make: Self.init
        ),
        answer: .json(
            Answer.record.kind("KakaoUserIDs"),
            example: Answer(
                userIDs: [123_456_789, 123_456_790],
                beforeURL: nil,
                afterURL: "https://kapi.kakao.com/v1/user/ids?limit=2&order=asc&from_id=123456791"
            )
        ),
        isPaged: true
    )

    package struct Answer: Sendable {
        package let userIDs: [Int64]
        /// The address of the previous page; `nil` on the first.
        package let beforeURL: String?
        /// The address of the next page; `nil` on the last.
        package let afterURL: String?

        package init(userIDs: [Int64], beforeURL: String?, afterURL: String?) {
            self.userIDs = userIDs
            self.beforeURL = beforeURL
            self.afterURL = afterURL
        }

        fileprivate static let record = Record<Answer>(
            .required("elements", \.userIDs, Kind<Int64>.kakaoID.array, "The ids."),
            .optional("before_url", \.beforeURL, .text, "The address of the previous page."),
            .optional("after_url", \.afterURL, .text, "The address of the next page."),
            make: Answer.init
        )
    }
}
