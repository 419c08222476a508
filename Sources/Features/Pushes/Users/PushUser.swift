import Endpoints
import FoundationEssentials
import Schemas

/// A user in a push: the batch that the user is in, and its result.
struct PushUser: Sendable {
    let pushID: UUID
    let pushName: String?
    let firstWords: String
    let createdAt: Date
    let pushState: PushState
    let batch: Int32
    let state: BatchState
    let attempts: Int32
    let mayRepeat: Bool
    let kakaoStatus: Int32?
    let kakaoCode: Int32?
    let kakaoMessage: String?
    let finishedAt: Date?

    static let shape = Shape<PushUser>(
        "PushUser",
        [
            .member("push_id", .uuid, "The push.", \.pushID),
            .nullable("name", .text, "The name of the push.", \.pushName),
            .member("first_words", .text, "The beginning of what a phone shows.", \.firstWords),
            .member("created_at", .time, "When the push was created.", \.createdAt),
            .member("push_state", .pushState, "The state of the push.", \.pushState),
            .member("batch", Kind<Int32>.number, "The number of the batch that the user is in.", \.batch),
            .member("state", .text(oneOf: BatchState.allCases.map(\.rawValue)), "Its state.", \.state.rawValue),
            .member("attempts", Kind<Int32>.number, "The number of requests to Kakao.", \.attempts),
            .member("may_repeat", .boolean, "Whether the user may have been reached twice.", \.mayRepeat),
            .nullable("status", Kind<Int32>.number, "The status of Kakao's last response.", \.kakaoStatus),
            .nullable("code", Kind<Int32>.number, "The error code of Kakao's last response.", \.kakaoCode),
            .nullable("message", .text, "The error text of Kakao's last response.", \.kakaoMessage),
            .nullable("finished_at", .time, "When the batch ended.", \.finishedAt),
        ]
    )
}
