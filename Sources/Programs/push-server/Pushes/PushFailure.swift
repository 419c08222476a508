import JSON
import KakaoAPI
import Pushes

/// Kakao's answer to a failed batch of a push, which says why users were not reached.
struct PushFailure {
    /// The answer in one line.
    let answer: String
    /// Whether Kakao rejects the message or the users, so that a retry would fail too.
    let isFinal: Bool

    /// - Parameter batch: The server's JSON of the batch.
    init(_ batch: JSONValue) {
        answer = ShownBatch.answer(batch, prefix: "kakao_")
        isFinal = batch["kakao_code"]?.integer == Int64(KakaoErrorCode.invalidParameter.rawValue)
    }
}

extension ServerClient {
    /// Returns Kakao's answer to the first failed batch of a push; `nil` if none has failed.
    func failure(of push: ShownPush) async throws -> PushFailure? {
        guard push.users.failed > 0 else { return nil }
        return try await get("/v1/pushes/\(push.id)/batches?state=failed&limit=1")["items"]?.array?.first.map(
            PushFailure.init
        )
    }
}
