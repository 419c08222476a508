internal import ServiceKit

/// The erasure of a user from the stored calls.
struct CallbackUsers: UserObserver {
    let events: EventStore
    let callbacks: LinkCallbackStore
    /// The setting `callbacks.user_id_argument`.
    let userIDArgument: String?

    func deleteData(ofUser userID: Int64) async throws -> Bool {
        try await events.remove(userID: userID)
        if let userIDArgument { try await callbacks.remove(userID: userID, fromArgument: userIDArgument) }
        return true
    }
}
