import ServiceKit

/// The erasure of a user from shares.
struct ShareUserObserver: UserObserver {
    let store: ShareStore
    /// The setting `callbacks.user_id_argument`.
    let userIDArgument: String?

    func deleteData(ofUser userID: Int64) async throws -> Bool {
        try await store.removeConversions(ofUser: userID)
        if let userIDArgument { try await store.remove(userID: userID, fromArgument: userIDArgument) }
        return true
    }
}
