import ServiceKit

/// The erasure of a user from the stored calls.
struct CallbackUserObserver: UserObserver {
    /// Whether user ids are Kakao's. Events have Kakao's ids, which may be those of other users otherwise.
    let hasKakaoUserIDs: Bool
    let events: EventStore
    let callbacks: LinkCallbackStore
    /// The setting `callbacks.user_id_argument`.
    let userIDArgument: String?

    func deleteData(ofUser userID: Int64) async throws -> Bool {
        if hasKakaoUserIDs { try await events.remove(userID: userID) }
        if let userIDArgument { try await callbacks.remove(userID: userID, fromArgument: userIDArgument) }
        return true
    }
}
