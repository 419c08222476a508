import Endpoints
import FoundationEssentials
import Schemas

/// A batch as it is shown.
struct BatchSummary: Sendable {
    let number: Int32
    let state: String
    let userIDs: [Int64]
    let attempts: Int32
    let mayRepeat: Bool
    let kakaoStatus: Int32?
    let kakaoCode: Int32?
    let kakaoMessage: String?
    let nextAttemptAt: Date?
    let finishedAt: Date?
}

extension BatchSummary {
    /// The members of a batch.
    static let shape = Shape<BatchSummary>(
        "Batch",
        [
            .member("number", Kind<Int32>.number, "The number of the batch within its push.", \.number),
            .member("state", .text(oneOf: BatchState.allCases.map(\.rawValue)), "Its state.", \.state),
            .array("uuids", .userID, "Its users.", \.userIDs),
            .member("attempts", Kind<Int32>.number, "The number of requests to Kakao.", \.attempts),
            .member("may_repeat", .boolean, "Whether users may have been reached twice.", \.mayRepeat),
            .nullable("kakao_status", Kind<Int32>.number, "The status of Kakao's last response.", \.kakaoStatus),
            .nullable("kakao_code", Kind<Int32>.number, "The error code of Kakao's last response.", \.kakaoCode),
            .nullable("kakao_message", .text, "The error text of Kakao's last response.", \.kakaoMessage),
            .nullable("next_attempt_at", .time, "When it is sent again.", \.nextAttemptAt),
            .nullable("finished_at", .time, "When it ended.", \.finishedAt),
        ]
    )
}
